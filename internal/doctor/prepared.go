package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/plaintext"
	"github.com/hare-go/hare/internal/serverview"
	"github.com/hare-go/hare/transactions"
)

// prepared is a prepared transaction of the server.
type prepared struct {
	GID, Owner string
	Xact       string // its transaction id
	Here       bool   // in this database
	Age        float64
	Xacts      int64 // transactions that the server has begun since
	Locks      []string

	garbled bool // the GID is not what its bytes are: this database cannot show them
}

// askPrepared lists them, the oldest first. Which lock is whose tells the virtual transaction, which is that of the lock on
// the transaction's own id (PostgreSQL documentation, view pg_locks); the names of other databases' tables are not known
// here.
func askPrepared(ctx context.Context, d *database) error {
	err := d.rows(ctx, &d.prepared, `WITH held AS (
	SELECT own.transactionid::pg_catalog.text AS xact, pg_catalog.json_agg(DISTINCT `+serverview.Bytes(`pg_catalog.regexp_replace(l.relation::pg_catalog.regclass::pg_catalog.text, '^public\.', '')`)+`) AS tables
	FROM pg_catalog.pg_locks own
	JOIN pg_catalog.pg_locks l ON l.virtualtransaction OPERATOR(pg_catalog.=) own.virtualtransaction AND l.pid IS NULL AND l.locktype OPERATOR(pg_catalog.=) 'relation'
	JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation AND (c.relkind OPERATOR(pg_catalog.=) 'r' OR c.relkind OPERATOR(pg_catalog.=) 'p')
	WHERE own.locktype OPERATOR(pg_catalog.=) 'transactionid' AND own.pid IS NULL AND own.granted
		AND l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) GROUP BY 1)
SELECT `+serverview.Bytes("p.gid")+` AS gid, `+serverview.Bytes("p.owner::pg_catalog.text")+` AS owner, p.transaction::pg_catalog.text AS xact,
	p.database OPERATOR(pg_catalog.=) pg_catalog.current_database() AS here,
	pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) p.prepared) AS age, pg_catalog.age(p.transaction)::pg_catalog.int8 AS xacts,
	coalesce(h.tables, '[]') AS locks
FROM pg_catalog.pg_prepared_xacts p LEFT JOIN held h ON h.xact OPERATOR(pg_catalog.=) p.transaction::pg_catalog.text AND p.database OPERATOR(pg_catalog.=) pg_catalog.current_database()
ORDER BY p.prepared`)
	for i := range d.prepared {
		d.prepared[i].read(ctx, d)
	}
	return err
}

// read turns what was read as bytes into names. Those that are no ASCII the server is asked for again, one by one: it may not
// be able to show them, or not those of other databases of its cluster.
func (p *prepared) read(ctx context.Context, d *database) {
	raw := serverview.Text(p.GID)
	p.GID, p.Owner = legible(raw), legible(serverview.Text(p.Owner))
	for i, name := range p.Locks {
		p.Locks[i] = legible(serverview.Text(name))
	}
	slices.Sort(p.Locks)
	if !p.Here || !strings.ContainsFunc(raw, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return
	}
	var again []struct{ GID string }
	err := d.rows(ctx, &again, `SELECT p.gid FROM pg_catalog.pg_prepared_xacts p WHERE p.transaction::pg_catalog.text OPERATOR(pg_catalog.=) %s`, backend.Literal(p.Xact))
	if p.garbled = err != nil || len(again) != 1; !p.garbled {
		p.GID = again[0].GID
		p.garbled = strings.ContainsRune(p.GID, utf8.RuneError)
	}
}

func legible(name string) string { return strings.ToValidUTF8(name, string(utf8.RuneError)) }

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
	if d.failed[serverIs] == nil && d.server.Standby {
		return []Finding{unseen(d, all)}
	}
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
		if strange[0].garbled {
			f.Mend = strings.TrimSuffix(f.Mend, ":") + ": on a connection whose client_encoding can show its GID, which that of hare cannot"
		} else {
			f.SQL = []string{"ROLLBACK PREPARED " + plaintext.Literal(strange[0].GID)}
		}
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

// unseen is what can be said of a standby, which shows nothing that is prepared on its primary. It has as many slots as its
// primary at least.
func unseen(d *database, all *examination) Finding {
	primary := all.primaryOf(d)
	switch {
	case primary != "":
		return found(OK, "not seen on a standby: see %q, its primary", primary)
	case d.failed[settingsAre] == nil && d.number("max_prepared_transactions") == 0:
		return found(OK, "none: a standby whose primary has no slots")
	}
	f := found(Warning, "not known: a standby does not show what is prepared on its primary, and no connection that was looked at leads there")
	f.Mend = "configure the primary, and look at it, too"
	return f
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
	at := slices.IndexFunc(all.databases, func(d *database) bool { return d.leads() && d.made[0].ID == idIn(xid) })
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
