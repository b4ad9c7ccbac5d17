package doctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/internal/releases"
)

// server is what a server says of itself.
type server struct {
	Version  string
	Number   int
	Standby  bool
	Role     string
	Database string
}

func askServer(ctx context.Context, d *database) error {
	return one(ctx, d, &d.server, `SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
	pg_is_in_recovery() AS standby, session_user::text AS role, current_database()::text AS database`)
}

func version(d *database, _ *examination) []Finding {
	return []Finding{judgeVersion(d.server.Version, d.server.Number)}
}

func judgeVersion(name string, number int) Finding {
	wanted := releases.Outdated(number)
	if wanted == "" {
		return found(OK, "%s", name)
	}
	f := found(Warning, "%s", name)
	f.Why = "this release may not start after a crash while something is prepared"
	f.Mend = "update the server to release " + wanted + " or a newer one of its major version"
	return f
}

// identity is what hare tells databases apart by: the cluster's system identifier, and the database's OID in it.
type identity struct{ System, OID, Name string }

func askIdentity(ctx context.Context, d *database) error {
	return one(ctx, d, &d.identity, `SELECT c.system_identifier::text AS system, d.oid::text AS oid, d.datname::text AS name
FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()`)
}

func (i identity) same(other identity) bool { return i.System == other.System && i.OID == other.OID }

func (i identity) String() string {
	return fmt.Sprintf("database %q (OID %s) of the cluster %s", i.Name, i.OID, i.System)
}

func identified(d *database, _ *examination) []Finding { return []Finding{found(OK, "%s", d.identity)} }

func primary(d *database, _ *examination) []Finding {
	switch {
	case d.server.Standby:
		f := found(Failure, "a standby")
		f.Mend = "lead the URL to the primary: name its host, or all hosts with target_session_attrs=read-write"
		return []Finding{f}
	case d.settings["default_transaction_read_only"].Value == "on":
		f := found(Warning, "the primary, but transactions are read-only by default (%s)", d.settings["default_transaction_read_only"].origin())
		f.Why = "every write is refused that does not ask for a transaction that may write"
		f.Mend, f.SQL = "as a default of the role:", d.roleDefault("default_transaction_read_only", "off")
		return []Finding{f}
	}
	return []Finding{found(OK, "the primary")}
}

// setting is a setting of the session.
type setting struct{ Name, Value, Source string }

// askSettings asks without a transaction of hare's own, which has settings of its own.
func askSettings(ctx context.Context, d *database) error {
	const sql = `SELECT name, setting AS value, source FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) ANY (ARRAY['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout',
	'max_prepared_transactions', 'max_connections', 'synchronous_commit', 'synchronous_standby_names', 'fsync', 'default_transaction_read_only'])`
	answer, err := d.conn.Control(ctx, asJSON(sql))
	if err != nil {
		return hare.ErrorFrom(d.alias, sql, err)
	}
	var rows []setting
	if err := decode(answer, &rows); err != nil {
		return err
	}
	d.settings = map[string]setting{}
	for _, s := range rows {
		d.settings[s.Name] = s
	}
	return nil
}

// origins are where a value comes from (PostgreSQL documentation, view pg_settings), for people.
var origins = map[string]string{
	"default": "PostgreSQL's default", "configuration file": "the server's configuration", "command line": "the server's command line",
	"database": "the database's default", "user": "the role's default", "database user": "the role's default in this database",
	"client": "the connection's URL", "session": "set in the session, perhaps by somebody else behind the same pooler",
}

func (s setting) origin() string {
	if origin, ok := origins[s.Source]; ok {
		return origin
	}
	return s.Source
}

// timeout is the check of a time-out. proposed is what to set where there is none, and the URL does not say it.
func timeout(name, proposed, why string) check {
	return check{name, why, settingsAre, func(d *database, _ *examination) []Finding {
		s, value := d.settings[name], "'"+proposed+"'"
		if g := d.guard(name); g != nil && !g.InForce() { // as the pool's connections have it, whatever connection is asked here
			s.Value, value = g.Found, assignment(*g)
			if g.Found != d.settings[name].Value {
				s.Source = "on the pool's connections"
			}
		}
		if s.Value != "0" {
			return []Finding{found(OK, "%s (%s)", spell(name, s.Value), s.origin())}
		}
		f := found(Warning, "none (%s)", s.origin())
		f.Mend = "as a default of the role, with a value that suits the application; connections that are open keep the old one:"
		f.SQL = d.roleDefault(name, value)
		if d.server.Standby {
			f.Mend = "set a default of the role on the primary; the standby gets it from there"
		}
		return []Finding{f}
	}}
}

func isTimeout(name string) bool {
	return name == "statement_timeout" || name == "lock_timeout" || name == "idle_in_transaction_session_timeout"
}

// spell is the value of a setting for people: time-outs with a unit.
func spell(name, value string) string {
	ms, err := strconv.ParseInt(value, 10, 64)
	switch {
	case !isTimeout(name) || err != nil:
		return value
	case ms == 0:
		return "none"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

// number is a setting that is a whole number.
func (d *database) number(name string) int {
	n, _ := strconv.Atoi(d.settings[name].Value) // as the server gives it
	return n
}

// precise is a short time with three digits or so.
func precise(t time.Duration) string {
	if t < 0 {
		return "-" + precise(-t)
	}
	switch {
	case t >= time.Second:
		t = t.Round(10 * time.Millisecond)
	case t >= time.Millisecond:
		t = t.Round(10 * time.Microsecond)
	default:
		t = t.Round(time.Microsecond)
	}
	return t.String()
}

// age is a long time as people say it: two units at most.
func age(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	days, hours, minutes := d/(24*time.Hour), d/time.Hour%24, d/time.Minute%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	}
	return d.String()
}
