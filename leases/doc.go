// Package leases elects one holder among any number of processes, by a row in a PostgreSQL database:
//
//	lease := leases.New(client, "nightly-report", leases.Options{})
//	err := lease.Run(ctx, func(ctx context.Context, term *leases.Term) error { ... })
//
// # State
//
// A lease is a row of the table public.hare_leases: its name, who holds it, a token, and when it expires. It is free when
// that time has passed. Three things happen to it, each in one short transaction of its own, and none of them ever joins a
// transaction of the caller:
//
//   - An acquisition takes a free lease: another holder, a higher token, a new expiry. It begins a [Term].
//   - A renewal moves the expiry of a term that is not over. It never takes a lease back that has expired, been taken by
//     somebody else, or vanished.
//   - A release ends the expiry, so that the next holder need not wait for it.
//
// The row is never deleted, and its token never goes down. All times are the database's own, read after the row's lock is
// held; no clock of a client enters a comparison.
//
// # The trust window
//
// The row decides who holds. Beside that the holder has a window in which it may trust its term without asking: from when
// the last renewal that succeeded was sent, for the TTL less a margin. Renewals go on in the background; when none gets
// through, the window ends before the row expires, the ctx that [Lease.Run] gave its function is cancelled, and [Term.Done]
// is closed. A computer that was suspended is found out by its wall clock, which goes on where the monotonic clock stands
// still; a wall clock that is set forward by more than the window has the same effect.
//
// # What is guaranteed
//
// At most one unexpired term exists at any instant, by the database's clock. A transaction in which [Term.Fence] succeeded
// commits before the next term begins or not at all, at every isolation level, however long the holder's process or
// its network stood still. For a system that is not in the lease's database the [Term.Token] travels with the request, and
// that system refuses a token lower than the highest that it has seen (M. Kleppmann, How to do distributed locking, 2016).
//
// # What is not
//
//   - A function that does not watch its ctx, and does not fence what it writes, can still be at work when the next term
//     has begun: a process that is stopped at the wrong instant cannot know it. The trust window makes that rare, the fence
//     makes it harmless.
//   - A process that begins while its connection leads to another database takes that one for the right one.
//   - Renewals and acquisitions wait for the disk like any commit, and for a synchronous standby. A server that loses commits (fsync off, an asynchronous
//     standby that is promoted) may forget a term, and give its token out again. The clock of a promoted standby decides
//     from then on.
//   - A lease is not fair: of several candidates any one may get it.
//   - A fenced transaction that is prepared (transactions.Distributed) keeps the next term from beginning until it has been
//     committed or rolled back, even after the expiry. Recovery sees to that.
//
// # Failures
//
// A renewal that fails is tried again until the trust window ends, whatever the error; only the answer that the row is not
// the term's any more ends it at once. No transaction is left open between two messages: each of the three is one message,
// guarded on the server by time-outs of that transaction alone, which hold behind a connection pooler in transaction mode,
// too. An answer that does not come is given up after [Options].StallTimeout, and the server process that was asked is
// ended by another connection, unless it is committing: what waits for a synchronous standby goes on waiting. A renewal that was committed and never answered does no harm: the next one is for the same
// token.
//
// Each message proves that it is answered by the database in which the process first asked for a lease: an [*ElsewhereError]
// says that it is not, which a pooler can bring about.
//
// All leases of a process on one database share at most four connections outside the pool, one of which stays open; they
// take the direct address where the URL has one.
//
// docs/leases.md tells the same with examples and advice.
package leases
