// Package transactions runs functions in transactions: [Atomic] on one database, [Distributed] on several PostgreSQL
// databases so that each keeps its write or none does, and [Recover], which finishes what a crash left.
//
// The open transaction travels in the ctx: every query that the function makes with the ctx it is given, on the same
// connection, joins it; one that is made with the ctx outside does not. A nested Atomic is a savepoint. Nothing is sent before the first statement.
//
// A COMMIT has three results, and the errors keep them apart; [OutcomeOf] tells which it was. Nothing whose outcome is
// unknown is ever run again by hare.
//
// Distributed transactions and recovery tell what they do to log/slog and to the global providers of OpenTelemetry, each
// event with the xid (docs/operations.md).
package transactions
