package integration

import (
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hare-go/hare/integration/servers"
	"github.com/hare-go/hare/internal/doctor"
)

// direct are the options that lead past a pooler to the server of a URL.
func direct(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	return "&direct_host=" + host + "&direct_port=" + port
}

// What lies between is told as it was seen, whatever the URL says, and what the URL says wrong is told with what would be
// right. Everything else is asked all the same.
func TestDoctorPoolers(t *testing.T) {
	t.Parallel()
	urls := unpooled(t, 2)
	ofTransactions := servers.PoolerFor(t, servers.PoolerOptions{URL: urls[0]}).URL(urls[0])
	ofSessions := servers.PoolerFor(t, servers.PoolerOptions{URL: urls[0], Mode: servers.SessionMode}).URL(urls[0])
	narrow := servers.PoolerFor(t, servers.PoolerOptions{URL: urls[0], PoolSize: 1}).URL(urls[0])
	const said = "&transaction_pooling=true"
	for _, test := range []struct {
		name, url string
		state     doctor.State
		says      string
	}{
		{"none", urls[0], doctor.OK, "no pooler"},
		{"none, and said to be one", urls[0] + said, doctor.Warning, "no pooler"},
		{"session", ofSessions, doctor.OK, "session mode"},
		{"session, and said to be another", ofSessions + said, doctor.Warning, "session mode"},
		{"transaction", ofTransactions, doctor.Warning, "transaction mode"},
		{"transaction, said", ofTransactions + said, doctor.Warning, "transaction mode"},
		{"transaction, and a way past it", ofTransactions + said + direct(t, urls[0]), doctor.OK, "transaction mode"},
		{"transaction, and denied", ofTransactions + "&transaction_pooling=false", doctor.Failure, "transaction mode"},
		{"a pool of one", narrow, doctor.Warning, "a pooler in "}, // whose mode is seen or not
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &patients{T: t, urls: map[string]string{"a": test.url}}
			report := p.examine(doctor.Options{Within: 40 * time.Second}) // a session costs its server process, and five are wanted
			f := p.want(report, "a", "pooler", test.state, test.says)
			if test.state == doctor.Warning && !strings.Contains(f.Mend, "transaction_pooling=true") {
				t.Errorf("it does not say which option: %+v", f)
			}
			p.want(report, "a", "reachable", doctor.OK)
			p.want(report, "a", "version", doctor.OK)
			p.want(report, "a", "prepared_transactions", doctor.OK)
		})
	}

	t.Run("the direct address", func(t *testing.T) {
		elsewhere := unpooled(t, 1)[0]
		for _, test := range []struct {
			name, option string
			state        doctor.State
			says         string
		}{
			{"the same", direct(t, urls[0]), doctor.OK, "the same database"},
			{"unreachable", "&direct_host=127.0.0.1&direct_port=1", doctor.Failure, "cannot be used: at the direct address 127.0.0.1:1 (direct_host)"},
		} {
			p := &patients{T: t, urls: map[string]string{"a": ofTransactions + said + test.option, "b": elsewhere}}
			p.want(p.examine(doctor.Options{}), "a", "direct_address", test.state, test.says)
		}
		p := &patients{T: t, urls: map[string]string{"a": urls[0]}}
		if list := of(p.examine(doctor.Options{}), "a", "direct_address"); len(list) > 0 {
			t.Errorf("without one: %+v", list)
		}
	})
}

// A direct address that leads to another server is a failure.
func TestDoctorDirectAddressElsewhere(t *testing.T) {
	t.Parallel()
	first, second := ownServer(t, servers.Options{Volatile: true}), ownServer(t, servers.Options{Volatile: true})
	database(t, second, "a")
	pooled := servers.PoolerFor(t, servers.PoolerOptions{URL: first.URL("postgres")}).URL(database(t, first, "a"))
	execAll(t, second.URL("postgres"), "ALTER ROLE hare PASSWORD '"+password(t, first.URL("a"))+"'")
	p := &patients{T: t, urls: map[string]string{"a": pooled + "&transaction_pooling=true" + direct(t, second.URL("a"))}}
	p.want(p.examine(doctor.Options{}), "a", "direct_address", doctor.Failure, "another database")
}

// A time-out of the URL that a pooler drops, or that it refuses, is told as what it is, and the other checks go on. The
// proposed default of the role, and new connections of the pooler's, bring it into force.
func TestDoctorDroppedParameter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		options servers.PoolerOptions
		url     string
	}{
		{"dropped", servers.PoolerOptions{IgnoreStartup: true}, ""},
		{"dropped in session mode", servers.PoolerOptions{IgnoreStartup: true, Mode: servers.SessionMode}, ""},
		{"refused", servers.PoolerOptions{}, ""},
		{"not sent", servers.PoolerOptions{}, "&transaction_pooling=true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			database := unpooled(t, 1)[0]
			test.options.URL = database
			pooler := servers.PoolerFor(t, test.options)
			p := &patients{T: t, urls: map[string]string{"a": pooler.URL(database) + "&statement_timeout=15s&lock_timeout=0" + test.url}, mender: map[string]string{"a": database}}
			report := p.examine(doctor.Options{})
			list := of(report, "a", "guards")
			if len(list) != 2 || list[0].State != doctor.OK && list[1].State != doctor.OK {
				t.Fatalf("%+v in\n%s", list, written(report))
			}
			f := list[0]
			if f.State != doctor.Failure || !strings.Contains(f.Value, "statement_timeout: the URL asks for 15s, the server has none") || !strings.Contains(f.Mend, "RECONNECT") {
				t.Errorf("%+v", f)
			}
			for _, check := range []string{"reachable", "version", "identity", "primary", "tables", "prepared_transactions"} {
				p.want(report, "a", check, doctor.OK)
			}
			p.want(report, "a", "statement_timeout", doctor.Warning, "none")

			p.run(f)
			if err := pooler.Command(t.Context(), "RECONNECT"); err != nil {
				t.Fatal(err)
			}
			report = p.examine(doctor.Options{})
			p.want(report, "a", "guards", doctor.OK, "in force: lock_timeout = none, statement_timeout = 15s")
			p.want(report, "a", "statement_timeout", doctor.OK, "15s", "the role's default in this database")
		})
	}
}

// password is the one in a URL.
func password(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	word, _ := u.User.Password()
	return word
}
