/** SQL, as text, for subscription pushes that are owed. */

/** Owes one to the users of the table `users` for whom `which` holds. */
export const owe = (which = 'true', since = 'clock_timestamp()') => `
  insert into subscription_pushes (user_id, owed_at) select id, ${since} from users where ${which}
  on conflict (user_id) do update set owed_at = excluded.owed_at`

/** The rows of those that are owed; more conditions may follow. */
export const owed = 'from subscription_pushes join users on id = user_id where subscribed and owed_at is not null'
