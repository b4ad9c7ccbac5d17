package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/transactions"
)

// prepared is a prepared transaction of the server.
type prepared struct {
	GID, Owner, Database string
	Here                 bool // in this database
	Age                  float64
	Xacts                int64 // transactions that the server has begun since
	Locks                []string
}

// askPrepared lists them, the oldest first. Which lock is whose tells the virtual transaction, which is that of the lock on
// the transaction's own id (PostgreSQL documentation, view pg_locks); the names of other databases' tables are not known
// here.
func askPrepared(ctx context.Context, d *database) error {
	return d.rows(ctx, &d.prepared, `WITH held AS (
	SELECT own.transactionid::text AS xact, json_agg(DISTINCT regexp_replace(l.relation::regclass::text, '^public\.', '')) AS tables
	FROM pg_locks own
	JOIN pg_locks l ON l.virtualtransaction = own.virtualtransaction AND l.pid IS NULL AND l.locktype = 'relation'
	JOIN pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p')
	WHERE own.locktype = 'transactionid' AND own.pid IS NULL AND own.granted
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY 1)
SELECT p.gid, p.owner::text AS owner, p.database::text AS database, p.database = current_database() AS here,
	extract(epoch FROM clock_timestamp() - p.prepared)::float8 AS age, age(p.transaction)::bigint AS xacts, coalesce(h.tables, '[]') AS locks
FROM pg_prepared_xacts p LEFT JOIN held h ON h.xact = p.transaction::text AND p.database = current_database() ORDER BY p.prepared`)
}

// slots judges max_prepared_transactions and how many are in use. Without any a database cannot be a participant. Whether
// it is to be one only the facts tell: with no other database there is no distributed transaction; where another one has
// coordinated some, this one is wanted for the next; one that coordinates needs no slots itself.
func slots(d *database, all *examination) []Finding {
	most, used, elsewhere := d.number("max_prepared_transactions"), len(d.prepared), 0
	for _, p := range d.prepared {
		if !p.Here {
			elsewhere++
		}
	}
	value := fmt.Sprintf("%d of %d in use", used, most)
	if elsewhere > 0 {
		value += fmt.Sprintf(", %d of them by other databases of the server", elsewhere)
	}
	f := found(OK, "%s", value)
	how, sql := "as a superuser, and restart the server:", []string{fmt.Sprintf("ALTER SYSTEM SET max_prepared_transactions = %d", d.slotsWanted(2*most))}
	if d.settings["max_prepared_transactions"].Source == "command line" { // which wins over the configuration
		how, sql = fmt.Sprintf("on the server's command line, which sets max_prepared_transactions (%d for example), and restart it", d.slotsWanted(2*most)), nil
	}
	switch {
	case most == 0:
		f.State, f.Value = judgeNoSlots(len(all.configured), d.coordinates(), all.coordinated())
		if f.State == OK {
			return []Finding{f}
		}
		f.Mend = "as many as max_connections are always enough, and a standby needs as many as its primary. Set it " + how
		f.SQL = sql
	case used >= most:
		f.State = Failure
		f.Mend = "finish what is left over, see prepared_transactions. If all of them are young there are too few slots: set more " + how
		f.SQL = sql
	case used*5 > most*4:
		f.State = Warning
		f.Mend = "finish what is left over, see prepared_transactions. If all of them are young there are soon too few slots: set more " + how
		f.SQL = sql
	}
	return []Finding{f}
}

// judgeNoSlots judges a server without slots.
func judgeNoSlots(databases int, coordinates, coordinated bool) (State, string) {
	switch {
	case databases == 1:
		return OK, "no slots: max_prepared_transactions is 0; with one database there is no distributed transaction"
	case coordinates:
		return Warning, "no slots: max_prepared_transactions is 0; this database coordinates distributed transactions, and cannot take part in others'"
	case coordinated:
		return Failure, "no slots: max_prepared_transactions is 0; this database cannot take part in the distributed transactions of the others"
	}
	return Warning, "no slots: max_prepared_transactions is 0; if there are to be distributed transactions, this database cannot take part"
}

// slotsWanted are as many as are always enough, or so many if that is more.
func (d *database) slotsWanted(least int) int { return max(d.number("max_connections"), least) }

// orphans judges what is prepared in this database: hare's and strangers' apart, each by its oldest.
func orphans(d *database, all *examination) (findings []Finding) {
	var ours, strange []prepared
	young := 0
	for _, p := range d.prepared {
		_, _, err := transactions.ParseGID(p.GID)
		switch {
		case !p.Here:
		case p.Age < all.options.OlderThan.Seconds():
			young++
		case err == nil:
			ours = append(ours, p)
		default:
			strange = append(strange, p)
		}
	}
	if len(ours) > 0 {
		f := found(Failure, "hare's, %s", describe(ours))
		f.Mend, f.Command = all.finish(d.alias, ours[0])
		findings = append(findings, f)
	}
	if len(strange) > 0 {
		f := found(Failure, "not hare's, %s", describe(strange))
		f.Mend = "ask its owner, or the transaction manager that made it, what was decided: to roll back by hand what is committed elsewhere destroys data, and nothing can tell afterwards. Only when it is certain that it was never committed:"
		if strings.HasPrefix(strange[0].GID, "hare_dtx_") {
			f.Mend = "it may be of hare for Python: then let its own distributed-recover finish it. Otherwise " + f.Mend
		}
		f.SQL = []string{"ROLLBACK PREPARED " + backend.Literal(strange[0].GID)}
		findings = append(findings, f)
	}
	switch {
	case len(findings) > 0:
	case young > 0:
		findings = append(findings, found(OK, "%d, younger than %s", young, age(all.options.OlderThan.Seconds())))
	default:
		findings = append(findings, found(OK, "none"))
	}
	return findings
}

// describe tells about the oldest of prepared transactions, and how many more there are.
func describe(list []prepared) string {
	oldest := list[0]
	text := fmt.Sprintf("%s old, owner %q, %s", age(oldest.Age), oldest.Owner, oldest.GID)
	if len(oldest.Locks) > 0 {
		text += "; locks " + strings.Join(oldest.Locks, ", ")
	}
	const worthVacuum = 10_000_000 // a twentieth of the default of autovacuum_freeze_max_age
	if oldest.Xacts >= worthVacuum {
		text += fmt.Sprintf("; VACUUM cannot clean up what %d million later transactions have left", oldest.Xacts/1_000_000)
	}
	if more := len(list) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// finish is what finishes a prepared transaction of hare's: recovery of the coordinator that has its id.
func (all *examination) finish(alias string, p prepared) (mend string, command []string) {
	xid, _, err := transactions.ParseGID(p.GID)
	if err != nil {
		return "", nil
	}
	coordinator, err := transactions.ParseXID(xid)
	if err != nil {
		return "", nil
	}
	mend = fmt.Sprintf("its coordinator is not among these databases: do this with a configuration in which %q is the coordinator %q with the id %s, and %q is configured, too:", coordinator, coordinator, idIn(xid), alias)
	at := slices.IndexFunc(all.databases, func(d *database) bool { return len(d.made) == 1 && d.made[0].ID == idIn(xid) })
	examined := slices.ContainsFunc(all.databases, func(d *database) bool { return d.alias == coordinator && d.failed[reaching] == nil })
	switch {
	case at >= 0:
		coordinator, mend = all.databases[at].alias, "nobody has finished it yet: is transactions.RunRecoverer running? At once:"
	case !examined && slices.Contains(all.configured, coordinator):
		mend = fmt.Sprintf("nobody has finished it yet. %q was not looked at; if it is the coordinator with the id %s:", coordinator, idIn(xid))
	}
	return mend, all.recover(coordinator, "--xid", xid)
}

// recover is the command that finishes what is left over, with the age that is asked for here.
func (all *examination) recover(coordinator string, more ...string) []string {
	command := []string{"distributed-recover", "--coordinator", coordinator}
	if all.options.OlderThan < DefaultOlderThan {
		command = append(command, "--older-than", fmt.Sprint(int(all.options.OlderThan.Seconds())))
	}
	return append(append(command, more...), "--finish")
}

// idIn is the id of the coordinator's database in an xid, which stands before its last part.
func idIn(xid string) string {
	parts := strings.Split(xid, ":")
	return parts[len(parts)-2]
}
