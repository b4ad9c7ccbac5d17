package doctor

import (
	"errors"
	"fmt"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/plaintext"
)

// check is one thing that is looked at.
type check struct {
	name string
	why  string // where the finding says nothing of its own
	of   question
	// judge makes findings of the answers. Where a check makes no sense for a database it has none.
	judge func(d *database, all *examination) []Finding
}

// checks are those of each database, in the order of the report.
var checks = []check{
	{"reachable", "nothing works without it", reaching, reachable},
	{"version", "some releases lose what is prepared when they crash", serverIs, version},
	{"identity", "hare tells databases apart by the server's own identity, whatever alias leads to them", identityIs, identified},
	{"primary", "nothing can be written or prepared on a standby", serverIs, primary},
	{"pooler", "behind a pooler in transaction mode nothing lasts in a session: hare keeps no prepared statements there and refuses LISTEN, SET and locks of a session", reaching, pooler},
	{"direct_address", "recovery and leases go past the pooler, so that a full one cannot starve them", reaching, directAddress},
	{"encryption", "who listens on the way reads all data, and can change it", reaching, encryption},
	{"guards", "a time-out that the URL asks for and the server does not have protects nobody; hare refuses to work without it", reaching, guards},
	timeout("statement_timeout", "15s", "without it a statement that went wrong holds its locks and its connection for ever"),
	timeout("lock_timeout", "5s", "without it a statement waits for ever behind a lock, and all that want the same row wait behind it"),
	timeout("idle_in_transaction_session_timeout", "60s", "without it a client that vanished in a transaction keeps its locks, and keeps VACUUM from its work"),
	{"prepared_slots", "each participant of a distributed transaction needs a slot from its PREPARE to its COMMIT PREPARED", preparedAre, slots},
	{"prepared_transactions", "it holds its locks until somebody finishes it, whatever restarts, and VACUUM cannot clean up behind it", preparedAre, orphans},
	{"tables", "a coordinator keeps its decisions in tables of its database, and leases are rows of one", tablesAre, usable},
	{"search_path", "whoever may create things in a schema of the search_path can have them run by the application's statements in place of PostgreSQL's own", schemasAre, searchPath},
	{"coordinator", "recovery recognises what belongs to this database by its id; a copy must not finish the original's transactions", coordinates, coordinator},
	{"decisions", "a decision to commit that is not resolved is a transaction that may not be in all of its databases yet", decisionsAre, decisions},
	{"durability", "a decision, or what is prepared, that a crash of the server could undo is worth nothing once others have been told", settingsAre, durability},
	{"leases", "who holds which lease, by the database's clock", leasesAre, held},
}

// between are the checks that compare databases.
var between = []check{
	{name: "same_database", why: "two aliases of one database cannot be in one distributed transaction: its two parts would wait for each other's locks", judge: sameDatabase},
	{name: "clocks", why: "hare compares times by one database's clock at a time, but people and programs compare what several have written", judge: clocks},
}

// judge runs all checks.
func (all *examination) judge() (findings []Finding) {
	for _, d := range all.databases {
		for _, c := range checks {
			findings = append(findings, c.findings(d, all)...)
		}
	}
	for _, c := range between {
		for _, f := range c.judge(nil, all) {
			findings = append(findings, c.named(f, ""))
		}
	}
	return findings
}

// findings are what a check makes of a database.
func (c check) findings(d *database, all *examination) (findings []Finding) {
	if c.of != reaching { // what lies between may be known without an answer
		if d.failed[reaching] != nil {
			return nil
		}
		if err := d.failed[c.of]; err != nil {
			return []Finding{c.named(c.unanswered(d, err), d.alias)}
		}
	}
	for _, f := range c.judge(d, all) {
		findings = append(findings, c.named(f, d.alias))
	}
	return findings
}

// named fills in what a finding does not say itself.
func (c check) named(f Finding, alias string) Finding {
	f.Alias, f.Check = alias, c.name
	if f.Why == "" {
		f.Why = c.why
	}
	return f
}

// grants are what lets a role ask a question that it may not ask.
var grants = map[question]string{
	identityIs:   "GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() TO %s",
	coordinates:  "GRANT SELECT ON " + coordinatorTable + " TO %s",
	decisionsAre: "GRANT SELECT, INSERT, UPDATE, DELETE ON " + decisionsTable + " TO %s",
	leasesAre:    "GRANT SELECT, INSERT, UPDATE ON " + leasesTable + " TO %s",
}

// unanswered is what is found where a question got no answer: nothing is known to be right then. It is a failure where the
// server has not answered at all, and where hare itself needs the right that is missing.
func (c check) unanswered(d *database, err error) Finding {
	f := found(Failure, "not known: %s", says(err))
	f.Mend = "see that the server, and the pooler before it, answer in time, and run hare doctor again"
	var refused *hare.DatabaseError
	if !errors.As(err, &refused) || refused.SQLState == "" {
		return f
	}
	f.State, f.Mend = Warning, "mend what the server complains of, and run hare doctor again"
	if refused.SQLState != "42501" { // insufficient_privilege
		return f
	}
	f.Value = fmt.Sprintf("not known: the role %q may not look: %s", d.server.Role, refused.Message)
	f.Mend = "let a superuser look, or give the role the right that the server names"
	if grant, ok := grants[c.of]; ok && d.server.Role != "" {
		f.State = Failure
		f.Mend, f.SQL = "hare needs this right; a superuser or the owner gives it:", []string{fmt.Sprintf(grant, plaintext.Name(d.server.Role))}
	}
	return f
}

// says is the text of an error in a finding, which has the connection's name already. The statements are the doctor's own.
func says(err error) string {
	var (
		refused *hare.DatabaseError
		wrong   *hare.ConfigurationError
	)
	switch {
	case errors.As(err, &refused) && refused.SQLState != "":
		return fmt.Sprintf("%s (SQLSTATE %s)", refused.Message, refused.SQLState)
	case errors.As(err, &refused):
		return refused.Message
	case errors.As(err, &wrong):
		text := *wrong
		text.Alias = ""
		return text.Error()
	}
	return err.Error()
}

func found(state State, format string, args ...any) Finding {
	return Finding{State: state, Value: fmt.Sprintf(format, args...)}
}
