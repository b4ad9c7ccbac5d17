// Package storm puts package leases to the test with processes that are really killed, stopped and cut off, directly and
// through a connection pooler in transaction mode:
//
//   - TestStorm lets eight processes compete for one lease while everything is done to them, and then reads in the database
//     whether there were ever two holders. HARE_STORM_SEED repeats its schedule, HARE_STORM_TIME sets how long it lasts.
//   - TestAdvisoryLockElectsSeveral shows what leases are there instead of.
//   - TestTakeoverAfterAKill measures how long a lease whose holder died stays without one.
package storm
