/** A gate that a test opens: what waits at it goes on when the test says so, and not after some time. */

export interface Gate<T> {
  opened: Promise<T>
  open(value: T): void
}

export function makeGate<T = void>(): Gate<T> {
  let open: (value: T) => void = () => {}
  const opened = new Promise<T>((resolve) => {
    open = resolve
  })
  return { opened, open }
}
