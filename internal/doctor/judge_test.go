package doctor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/hare/backend"
)

// The server is taken to have answered in the middle of the round trip.
func TestOffsetOfAClock(t *testing.T) {
	t.Parallel()
	sent := time.UnixMilli(1_700_000_000_000)
	for _, test := range []struct {
		name  string
		took  time.Duration
		epoch float64
		want  time.Duration
	}{
		{"the same", 200 * time.Millisecond, 1_700_000_000.1, 0},
		{"ahead", 200 * time.Millisecond, 1_700_000_003.1, 3 * time.Second},
		{"behind", 200 * time.Millisecond, 1_699_999_999.6, -500 * time.Millisecond},
		{"at once", 0, 1_700_000_000.000001, time.Microsecond},
	} {
		if got := offset(sent, test.took, test.epoch); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// A difference is told from a second on, as far as it is certain, and names the clocks that are furthest apart.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	reading := func(alias string, ahead, doubt time.Duration) clockReading {
		return clockReading{alias: alias, ahead: ahead, doubt: doubt}
	}
	const ms = time.Millisecond
	for _, test := range []struct {
		name     string
		readings []clockReading
		state    State
		says     string
	}{
		{"close", []clockReading{reading("a", 5000*ms, ms), reading("b", 5900*ms, ms), reading("c", 5500*ms, ms)}, OK, "900ms apart at most, give or take 2ms"},
		{"a second", []clockReading{reading("a", 0, ms), reading("b", -1002*ms, ms), reading("c", -500*ms, ms)}, Warning, `"a" is 1s ahead of "b", give or take 2ms`},
		{"perhaps a second", []clockReading{reading("a", 0, 10*ms), reading("b", 1015*ms, 10*ms)}, OK, "1.02s apart"},
		{"certainly a second", []clockReading{reading("a", 0, 10*ms), reading("b", 1020*ms, 10*ms)}, Warning, `"b" is 1.02s ahead of "a"`},
		{"days", []clockReading{reading("a", 0, ms), reading("b", 48*time.Hour, ms)}, Warning, "48h0m0s ahead"},
	} {
		if f := judgeClocks(test.readings); f.State != test.state || !strings.Contains(f.Value, test.says) || (f.Mend == "") != (f.State == OK) {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
	all := &examination{databases: []*database{{alias: "a"}, {alias: "b", failed: map[question]error{reaching: errUnanswered}}, {alias: "c", offset: 2 * time.Second}}}
	if list := clocks(nil, all); len(list) != 1 || list[0].State != Warning || !strings.Contains(list[0].Value, `"c"`) {
		t.Errorf("one of three unreachable: %+v", list)
	}
	all.databases = all.databases[:2]
	if list := clocks(nil, all); len(list) != 0 {
		t.Errorf("one clock: %+v", list)
	}
}

// TestTransportIsJudged: a connection that others could read or take over is a warning, at each address of the database.
// Fault S8.
func TestTransportIsJudged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		transport backend.Transport
		state     State
		says      string
	}{
		{backend.Transport{}, Warning, "not encrypted"},
		{backend.Transport{Encrypted: true}, Warning, "not verified"},
		{backend.Transport{Encrypted: true, Verified: true}, OK, "certificate is verified"},
		{backend.Transport{Local: true}, OK, "this machine"},
		{backend.Transport{Local: true, Encrypted: true}, OK, "this machine"},
		{backend.Transport{Local: true, Encrypted: true, Verified: true}, OK, "certificate is verified"},
	} {
		local := backend.Transport{Local: true}
		d := &database{path: &backend.Path{Transport: test.transport}}
		behind := &database{path: &backend.Path{Transport: local, Direct: "db1:5432", DirectTransport: &test.transport}}
		for _, d := range []*database{d, behind} {
			list := encryption(d, nil)
			f := list[len(list)-1]
			if f.State != test.state || !strings.Contains(f.Value, test.says) || (f.State == Warning) != strings.Contains(f.Mend, "sslmode=verify-full") {
				t.Errorf("%+v: %+v", test.transport, f)
			}
			if atDirect := strings.Contains(f.Value, "at the direct address db1:5432"); atDirect != (d == behind) {
				t.Errorf("%+v: the address is not told: %+v", test.transport, f)
			}
		}
	}
	if list := encryption(&database{}, nil); len(list) != 0 {
		t.Errorf("a database that nothing is known of: %+v", list)
	}
}

// What was seen between the pool and the server is compared with what the URL says.
func TestPathIsJudged(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, test := range []struct {
		name  string
		path  backend.Path
		state State
		says  string // in the value or the mending
	}{
		{"none", backend.Path{Pooler: backend.PoolingNone}, OK, "no pooler"},
		{"none, said", backend.Path{Pooler: backend.PoolingNone, Told: &no}, OK, "transaction_pooling=false"},
		{"none, and said to be one", backend.Path{Pooler: backend.PoolingNone, Told: &yes}, Warning, "take transaction_pooling=true out"},
		{"session", backend.Path{Pooler: backend.PoolingSession, Told: &no}, OK, "session mode"},
		{"session, and said to be another", backend.Path{Pooler: backend.PoolingSession, Told: &yes}, Warning, "out of the URL"},
		{"transaction", backend.Path{Pooler: backend.PoolingTransaction, Told: &yes, Direct: "db:5432"}, OK, "transaction mode"},
		{"transaction, and no way past it", backend.Path{Pooler: backend.PoolingTransaction}, Warning, "direct_host"},
		{"transaction, and denied", backend.Path{Pooler: backend.PoolingTransaction, Told: &no}, Failure, "take transaction_pooling=false out"},
		{"unknown", backend.Path{Pooler: backend.PoolingUnknown}, Warning, "taken for one in transaction mode"},
		{"unknown, and denied", backend.Path{Pooler: backend.PoolingUnknown, Told: &no}, Warning, "taken for one in session mode"},
	} {
		test.path.Evidence = "seen"
		f := judgePath(test.path)
		if f.State != test.state || !strings.Contains(f.Value+f.Mend, test.says) || !strings.Contains(f.Value, "seen") || (f.Mend == "") != (f.State == OK) {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
}

// A pooler that is full is told as such where that can be seen, and where it may be.
func TestFullPoolerIsNamed(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"it says so":      hare.ErrorFrom("a", "", &backend.Error{Class: backend.ClassConnection, SQLState: "08P01", Message: "query_wait_timeout"}),
		"it says nothing": hare.ErrorFrom("a", "", context.DeadlineExceeded),
	} {
		if f := unreachable(err); f.State != Failure || !strings.Contains(f.Mend, "SHOW POOLS") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := unreachable(hare.ErrorFrom("a", "", &backend.Error{Class: backend.ClassConnection, Message: "connection refused"})); strings.Contains(f.Mend, "SHOW POOLS") {
		t.Errorf("a server that is away: %+v", f)
	}
}

// A role's defaults cannot be set on a standby: no statement is proposed there.
func TestStandbyIsNotAltered(t *testing.T) {
	t.Parallel()
	d := &database{server: server{Role: "app", Database: "shop", Standby: true}, settings: map[string]setting{"lock_timeout": {Value: "0", Source: "default"}}}
	f := timeout("lock_timeout", "5s", "").judge(d, nil)[0]
	if f.State != Warning || len(f.SQL) > 0 || !strings.Contains(f.Mend, "on the primary") {
		t.Errorf("%+v", f)
	}
}

// A guard that is not in force is a failure with the statement that mends it, and those that are are told, too.
func TestGuardsAreJudged(t *testing.T) {
	t.Parallel()
	d := &database{server: server{Role: `o"neil`, Database: "shop"}, path: &backend.Path{Guards: []backend.Guard{
		{Name: "statement_timeout", Asked: "15000", Found: "0"},
		{Name: "lock_timeout", Asked: "5000", Found: "5000"},
		{Name: "search_path", Asked: "app,public", Found: `"$user", public`},
		{Name: "synchronous_commit", Asked: "remote_apply", Found: "local"},
	}}}
	list := guards(d, nil)
	if len(list) != 4 || list[0].State != Failure || list[1].State != Failure || list[2].State != Failure || list[3].State != OK {
		t.Fatalf("%+v", list)
	}
	for i, want := range []struct{ value, sql string }{
		{"statement_timeout: the URL asks for 15s, the server has none", `ALTER ROLE "o""neil" IN DATABASE "shop" SET statement_timeout = '15000ms'`},
		{`search_path: the URL asks for app,public, the server has "$user", public`, `ALTER ROLE "o""neil" IN DATABASE "shop" SET search_path = app,public`},
		{"synchronous_commit: the URL asks for remote_apply, the server has local", `ALTER ROLE "o""neil" IN DATABASE "shop" SET synchronous_commit = remote_apply`},
	} {
		if list[i].Value != want.value || len(list[i].SQL) != 1 || list[i].SQL[0] != want.sql {
			t.Errorf("%+v, want %+v", list[i], want)
		}
	}
	if strings.Contains(list[1].Why+list[1].Mend, "time") || !strings.Contains(list[1].Mend, "SET LOCAL") {
		t.Errorf("of a search_path: %+v", list[1])
	}
	if !strings.Contains(list[2].Why, "a commit would wait") {
		t.Errorf("of synchronous_commit: %+v", list[2])
	}
	if list[3].Value != "in force: lock_timeout = 5s" {
		t.Errorf("%+v", list[3])
	}

	// That the pool refuses to work is then the guards' finding, and not that of the server's being unreachable.
	d.refused = &hare.ConfigurationError{Option: "statement_timeout"}
	if f := reachable(d, nil)[0]; f.State != OK {
		t.Errorf("%+v", f)
	}
	d.refused = &hare.ConnectionError{}
	if f := reachable(d, nil)[0]; f.State != Failure {
		t.Errorf("%+v", f)
	}
}

// A database that could not be reached has no findings but that, and what is known of the way to it.
func TestUnreachableDatabase(t *testing.T) {
	t.Parallel()
	d := &database{alias: "a", failed: map[question]error{reaching: errUnanswered}, pathErr: errUnanswered}
	names := func() (list []string) {
		for _, f := range (&examination{databases: []*database{d}}).judge() {
			list = append(list, f.Check)
		}
		return list
	}
	if got := names(); !slices.Equal(got, []string{"reachable"}) {
		t.Errorf("%q", got)
	}
	d.path = &backend.Path{Pooler: backend.PoolingTransaction, Guards: []backend.Guard{{Name: "lock_timeout", Asked: "1", Found: "0"}}}
	if got := names(); !slices.Equal(got, []string{"reachable", "pooler", "encryption", "guards"}) {
		t.Errorf("%q", got)
	}
}

func TestReleasesAreJudged(t *testing.T) {
	t.Parallel()
	if f := judgeVersion("15.3", 150003); f.State != Warning || !strings.Contains(f.Mend, "15.4") {
		t.Errorf("%+v", f)
	}
	if f := judgeVersion("15.4", 150004); f.State != OK || f.Value != "15.4" {
		t.Errorf("%+v", f)
	}
}

// Whether a standby is missed depends on who waits for it; what stands in the way of an examination is told, not guessed.
func TestDurabilityIsJudged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, commit, names string
		standbys            standby
		coordinates         bool
		state               State
		says                string
	}{
		{"no standby", "on", "", standby{}, true, OK, "no standby"},
		{"synchronous", "on", "s1", standby{Connected: 1, Synchronous: 1, Seen: true}, true, OK, "1 of them synchronous"},
		{"synchronous, unseen", "on", "s1", standby{Connected: 1}, true, OK, "1 standby"},
		{"missing", "on", "s1", standby{}, false, Failure, "s1"},
		{"missing, and nobody waits", "local", "s1", standby{}, false, OK, "local"},
		{"local at the coordinator", "local", "s1", standby{Connected: 1, Synchronous: 1, Seen: true}, true, Warning, "local"},
		{"asynchronous", "on", "", standby{Connected: 2}, true, Warning, "none of them synchronous"},
		{"asynchronous, of a participant", "on", "", standby{Connected: 2}, false, OK, "none of them synchronous"},
		{"off", "off", "", standby{}, true, Warning, "off"},
		{"off, of a participant", "off", "", standby{}, false, OK, "off"},
	} {
		d := &database{standbys: []standby{test.standbys}, settings: map[string]setting{
			"synchronous_commit": {Value: test.commit}, "synchronous_standby_names": {Value: test.names}, "fsync": {Value: "on"}}}
		if test.coordinates {
			d.tables.Tables = []table{{Name: coordinatorTable}}
		}
		if f := judgeDurability(d); f.State != test.state || !strings.Contains(f.Value, test.says) || (f.Mend == "") != (f.State == OK) {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
}

func TestTimesForPeople(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		precise(1234567 * time.Nanosecond): "1.23ms", precise(-1500 * time.Millisecond): "-1.5s", precise(12345 * time.Nanosecond): "12µs",
		age(59.6): "1m0s", age(3.2): "3s", age(3700): "1h1m", age(200000): "2d7h",
		spell("lock_timeout", "0"): "none", spell("lock_timeout", "1500"): "1.5s", spell("search_path", "0"): "0",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
