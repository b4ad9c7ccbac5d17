package leases_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
)

// heard counts the messages of a log.
type heard struct {
	slog.Handler
	failed, recovered atomic.Int32
}

func (h *heard) Enabled(context.Context, slog.Level) bool { return true }

func (h *heard) Handle(_ context.Context, r slog.Record) error {
	switch {
	case strings.Contains(r.Message, "renewal failed"):
		h.failed.Add(1)
	case strings.Contains(r.Message, "get through again"):
		h.recovered.Add(1)
	}
	return nil
}

func (h *heard) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h *heard) WithGroup(string) slog.Handler { return h }

// fault is what a test does to a lease's renewals, and undoes.
type fault struct {
	begin, end func(p *place, watch *pgx.Conn, role string)
}

// trigger makes acquisitions and renewals do something.
func trigger(body string) func(p *place, watch *pgx.Conn, role string) {
	return func(p *place, watch *pgx.Conn, _ string) {
		p.do(watch, "CREATE OR REPLACE FUNCTION strike() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+body+" RETURN NEW; END $$",
			"CREATE TRIGGER strike BEFORE UPDATE ON public.hare_leases FOR EACH ROW EXECUTE FUNCTION strike()")
	}
}

func untrigger(p *place, watch *pgx.Conn, _ string) {
	p.do(watch, "SET lock_timeout = '20s'", "DROP TRIGGER strike ON public.hare_leases")
}

var faultsOfRenewals = map[string]fault{
	"42501": {
		func(p *place, watch *pgx.Conn, role string) {
			p.do(watch, "REVOKE UPDATE ON public.hare_leases FROM "+role)
		},
		func(p *place, watch *pgx.Conn, role string) {
			p.do(watch, "GRANT UPDATE ON public.hare_leases TO "+role)
		},
	},
	"42P01": {
		func(p *place, watch *pgx.Conn, _ string) {
			p.do(watch, "ALTER TABLE public.hare_leases RENAME TO away")
		},
		func(p *place, watch *pgx.Conn, _ string) {
			p.do(watch, "ALTER TABLE public.away RENAME TO hare_leases")
		},
	},
	"53300": {
		func(p *place, watch *pgx.Conn, role string) {
			p.do(watch, "ALTER ROLE "+role+" CONNECTION LIMIT 0",
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'")
		},
		func(p *place, watch *pgx.Conn, role string) { p.do(watch, "ALTER ROLE "+role+" CONNECTION LIMIT 100") },
	},
	"28000": {
		func(p *place, watch *pgx.Conn, role string) {
			p.do(watch, "ALTER ROLE "+role+" NOLOGIN", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'")
		},
		func(p *place, watch *pgx.Conn, role string) { p.do(watch, "ALTER ROLE "+role+" LOGIN") },
	},
	"55P03": {
		func(p *place, watch *pgx.Conn, _ string) {
			p.do(watch, "BEGIN", "SELECT FROM public.hare_leases WHERE name = 'job' FOR UPDATE")
		},
		func(p *place, watch *pgx.Conn, _ string) { p.do(watch, "ROLLBACK") },
	},
	"57014": {trigger("PERFORM pg_sleep(60);"), untrigger},
	"40001": {trigger("RAISE EXCEPTION 'injected' USING ERRCODE = '40001';"), untrigger},
	"40P01": {trigger("RAISE EXCEPTION 'injected' USING ERRCODE = '40P01';"), untrigger},
	"57P01": {trigger("PERFORM pg_terminate_backend(pg_backend_pid());"), untrigger},
	"25006": {
		trigger("RAISE EXCEPTION 'injected' USING ERRCODE = '25006';"), untrigger,
	},
}

// unhurried are options with a long trust window, whose end is long before the expiry.
func unhurried(h slog.Handler, ttl time.Duration) leases.Options {
	return leases.Options{TTL: ttl, Margin: 4 * time.Second, Interval: time.Second, Poll: 200 * time.Millisecond,
		LockTimeout: time.Second, StatementTimeout: 2 * time.Second, IdleTimeout: 2 * time.Second,
		StallTimeout: ttl - 5*time.Second, Logger: slog.New(h)}
}

// ownRole is a role that may use the table of leases and no more, and the URL for it.
func (p *place) ownRole(watch *pgx.Conn) (role, address string) {
	p.Helper()
	role, password := "hare_role_"+strings.ToLower(rand.Text()), rand.Text()
	p.do(watch, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", role, password),
		"GRANT SELECT, INSERT, UPDATE ON public.hare_leases TO "+role, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	u, err := url.Parse(p.url)
	if err != nil {
		p.Fatal(err)
	}
	owner := p.url
	p.Cleanup(func() { // after the database is gone, or its connections are
		conn, err := pgx.Connect(context.Background(), owner)
		if err != nil {
			p.Error(err)
			return
		}
		defer conn.Close(context.Background())
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				p.Error(err)
			}
		}
	})
	u.User = url.UserPassword(role, password)
	return role, u.String()
}

// Whatever makes renewals fail, they are tried again until the trust window ends. Then, before the row expires, the term is
// lost, once; if it heals before, nothing happens.
//
// Lease field case 4. Lease field case 9.
func TestEveryFailureOfRenewals(t *testing.T) {
	t.Parallel()
	for name, fault := range faultsOfRenewals {
		for _, heals := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", heals ", heals), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				p.table()
				watch, eye := p.session(), p.session()
				role, address := p.ownRole(watch)
				_, client := p.connect(address)
				told := &heard{}
				ttl := 10 * time.Second
				if heals {
					ttl = 40 * time.Second // which nobody waits for
				}
				opts, sees := counted(unhurried(told, ttl))
				l := p.lease(client, "job", opts)
				term := p.acquire(l)
				fault.begin(p, watch, role)
				p.eventually("a renewal fails", func() bool { return told.failed.Load() > 0 || term.Err() != nil })
				if !heals {
					<-term.Done()
					if strings.HasPrefix(name, "42P01") {
						fault.end(p, watch, role)
					}
					if rest := get[time.Duration](p, eye, "SELECT expires_at - clock_timestamp() FROM public.hare_leases"); rest <= 0 {
						t.Errorf("the term was over %v after its expiry", -rest)
					}
					lost := as[*leases.LeaseLostError](t, term.Err())
					if lost.Err == nil {
						t.Errorf("the loss does not tell why: %v", lost)
					}
					if err := term.Release(); err != nil {
						t.Error(err)
					}
					sees.want(t, 1, 0, 1)
					return
				}
				fault.end(p, watch, role)
				p.eventually("renewals recover", func() bool { return told.recovered.Load() > 0 || term.Err() != nil })
				sees.want(t, 1, 0, 0)
				if err := term.Err(); err != nil {
					t.Fatal(err)
				}
				if token := get[int64](p, eye, "SELECT token FROM public.hare_leases"); token != term.Token() {
					t.Errorf("token %d, want %d", token, term.Token())
				}
				if n := told.failed.Load(); n != 1 {
					t.Errorf("%d messages about one trouble", n)
				}
			})
		}
	}
}

// A candidate that waits goes on through troubles that may pass, and is told at once of what is a matter of configuration.
func TestFailuresOfCandidates(t *testing.T) {
	t.Parallel()
	for name, fault := range faultsOfRenewals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.table()
			watch := p.session()
			role, address := p.ownRole(watch)
			_, client := p.connect(address)
			p.do(watch, "INSERT INTO public.hare_leases VALUES ('job', 'nobody', 3, 'epoch', 'epoch', 'epoch')")
			// The table is known by then: one with a trigger would be refused at the first use.
			if err := p.acquire(p.lease(client, "before", long)).Release(); err != nil {
				t.Fatal(err)
			}
			fault.begin(p, watch, role)
			told := &heard{}
			l := p.lease(client, "job", unhurried(told, 40*time.Second))
			var term *leases.Term
			acquired := background(func() (err error) { term, err = l.Acquire(t.Context()); return err })
			// A matter of configuration: rights, tables, logins.
			if name == "42501" || name == "42P01" || name == "28000" {
				err := <-acquired
				if err == nil {
					t.Error("it was acquired")
				}
				if wrong := (*hare.ConfigurationError)(nil); name == "42501" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE ON public.hare_leases")) {
					t.Errorf("rights are missing, and it says %T: %v", err, err)
				}
				fault.end(p, watch, role)
				return
			}
			if first := second(p.lease(client, "job", unhurried(told, 40*time.Second)).TryAcquire(t.Context())); first == nil {
				t.Error("an acquisition did not fail")
			}
			pending(t, "Acquire", acquired)
			fault.end(p, watch, role)
			if err := <-acquired; err != nil || term.Token() != 4 {
				t.Errorf("%v", err)
			}
		})
	}
}
