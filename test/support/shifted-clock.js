// `NODE_OPTIONS=--import=…/shifted-clock.js CLOCK_SHIFT_DAYS=40`: shifts the machine's clock by so many days.
const shiftMs = Number(process.env.CLOCK_SHIFT_DAYS) * 86_400_000
const RealDate = Date

globalThis.Date = class ShiftedDate extends RealDate {
  constructor(...args) {
    super(...(args.length === 0 ? [RealDate.now() + shiftMs] : args))
  }

  static now() {
    return RealDate.now() + shiftMs
  }
}
