package servers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

func TestMain(m *testing.M) { Main(m) }

// ownWays are the ways to servers of one's own that this machine has, or the one that HARE_SERVERS demands.
func ownWays(t *testing.T) []Way {
	if forced := Way(os.Getenv(waysVariable)); forced == Docker || forced == Local {
		return []Way{forced}
	}
	var ways []Way
	var refused []error
	for _, way := range []Way{Docker, Local} {
		if _, err := usable(t.Context(), way); err != nil {
			refused = append(refused, err)
			continue
		}
		ways = append(ways, way)
	}
	if len(ways) == 0 {
		t.Fatal(errors.Join(refused...))
	}
	return ways
}

// start starts a server that is closed at the end of the test.
func start(t *testing.T, opts Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestServerLivesThroughEverything(t *testing.T) {
	for _, way := range ownWays(t) {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := start(t, Options{Name: "life", Way: way, Settings: map[string]string{"max_prepared_transactions": "7"}})
			if s.Way() != way {
				t.Errorf("the server runs the way %q, not %q", s.Way(), way)
			}
			database, err := s.CreateDatabase(ctx, `quo"ted`)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Exec(ctx, `quo"ted`, "CREATE TABLE t (n int); INSERT INTO t VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			wantSettings(t, database, map[string]string{
				"max_prepared_transactions": "7", "fsync": "on", "synchronous_commit": "on", "server_encoding": "UTF8",
			})
			if got := read(t, database, "SELECT lower('ÄÉ')"); got != "äé" {
				t.Errorf("lower('ÄÉ') is %q: the locale knows no letters but ASCII", got)
			}

			steps := []struct {
				name string
				do   func(context.Context) error
			}{
				{"kill", s.Kill},
				{"stop", s.Stop},
				{"restart while running", nil},
				{"kill while paused", func(ctx context.Context) error {
					return errors.Join(s.Pause(ctx), s.Kill(ctx))
				}},
			}
			for i, step := range steps {
				open, err := pgx.Connect(ctx, database)
				if err != nil {
					t.Fatal(err)
				}
				if step.do != nil {
					if err := step.do(ctx); err != nil {
						t.Fatalf("%s: %v", step.name, err)
					}
					if _, err := open.Exec(ctx, "SELECT 1"); err == nil {
						t.Errorf("%s: the session still works", step.name)
					}
					if err := execSQL(ctx, database, "SELECT 1"); err == nil {
						t.Errorf("%s: the server still answers", step.name)
					}
				}
				if err := s.Restart(ctx); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				if err := s.Exec(ctx, `quo"ted`, "INSERT INTO t VALUES (1)"); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				want := strings.Repeat("1", i+2)
				if got := read(t, database, "SELECT string_agg(n::text, '') FROM t"); got != want {
					t.Errorf("%s: the table holds %q, not %q", step.name, got, want)
				}
				_ = open.Close(ctx)
			}
		})
	}
}

func TestStandbyStaysBehindUntilItIsPromoted(t *testing.T) {
	for _, way := range ownWays(t) {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			first := start(t, Options{Name: "primary", Way: way, Fast: true})
			write := "INSERT INTO t VALUES (1)"
			if err := first.Exec(ctx, "postgres", "CREATE TABLE t (n int); "+write); err != nil {
				t.Fatal(err)
			}
			second := start(t, Options{Name: "standby", StandbyOf: first, Fast: true})
			if err := first.Exec(ctx, "postgres", write); err != nil {
				t.Fatal(err)
			}
			wantState := func(recovering, rows string) {
				t.Helper()
				state := read(t, second.URL("postgres"), "SELECT pg_is_in_recovery()::text || ' ' || count(*) FROM t")
				if state != recovering+" "+rows {
					t.Errorf("in recovery, and rows: %s, want %s %s", state, recovering, rows)
				}
			}
			wantState("true", "1")
			if err := second.Exec(ctx, "postgres", write); err == nil {
				t.Error("a standby can be written")
			}
			if err := second.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			wantState("true", "1")
			if err := second.Promote(ctx); err != nil {
				t.Fatal(err)
			}
			if err := second.Exec(ctx, "postgres", write); err != nil {
				t.Errorf("promoted: %v", err)
			}
			wantState("false", "2")
		})
	}
}

func TestPausedServerIsSilentButConnected(t *testing.T) {
	for _, way := range ownWays(t) {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := start(t, Options{Name: "pause", Way: way, Fast: true})
			wantSettings(t, s.URL("postgres"), map[string]string{
				"max_prepared_transactions": "64", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
			})
			conn, err := pgx.Connect(ctx, s.URL("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			if err := s.Pause(ctx); err != nil {
				t.Fatal(err)
			}
			answer := make(chan error, 1)
			go func() {
				_, err := conn.Exec(ctx, "SELECT 1")
				answer <- err
			}()
			select {
			case err := <-answer:
				t.Fatalf("a paused server has answered: %v", err)
			case <-time.After(300 * time.Millisecond):
			}
			if err := s.Resume(ctx); err != nil {
				t.Fatal(err)
			}
			if err := <-answer; err != nil {
				t.Errorf("the session did not live through the pause: %v", err)
			}
			if err := s.Pause(ctx); err != nil { // so that Close has a paused server to remove
				t.Fatal(err)
			}
		})
	}
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	for _, way := range ownWays(t) {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			_, err := Start(t.Context(), Options{Name: "wrong", Way: way, Settings: map[string]string{"no_such": "1"}})
			if err == nil || !strings.Contains(err.Error(), `"no_such"`) {
				t.Errorf("the error does not hold the server's log: %v", err)
			}
		})
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	for _, way := range ownWays(t) {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s, err := Start(ctx, Options{Name: "close", Way: way, Fast: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			if err := s.Exec(ctx, "postgres", "SELECT 1"); err == nil {
				t.Error("the server still answers")
			}
			switch m := s.machine.(type) {
			case *process:
				if _, err := os.Stat(m.directory); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the directory is still there: %v", err)
				}
				if alive(m.pid) || len(children(m.pid)) > 0 {
					t.Error("processes are left")
				}
			case *container:
				gone := new(docker.NoSuchContainer)
				if _, err := m.pool.Client.InspectContainer(m.resource.Container.ID); !errors.As(err, &gone) {
					t.Errorf("the container is still there: %v", err)
				}
			}
		})
	}
}

func TestOrphansAreRemoved(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	for _, way := range ownWays(t) {
		t.Run(string(way), func(t *testing.T) {
			s := start(t, Options{Name: "orphan", Way: way, Fast: true})
			host, _, _ := strings.Cut(owner(), "/")
			deadOwner := host + "/" + strconv.Itoa(dead.Process.Pid)
			switch m := s.machine.(type) {
			case *process:
				orphan := filepath.Join(os.TempDir(), directoryPrefix+strconv.Itoa(dead.Process.Pid)+"-test")
				if err := os.Mkdir(orphan, 0o700); err != nil {
					t.Fatal(err)
				}
				removeOrphanDirectories()
				if _, err := os.Stat(orphan); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the orphan is still there: %v", err)
				}
			case *container:
				orphan, err := m.pool.RunWithOptions(&dockertest.RunOptions{
					Repository: imageName, Tag: imageTag, Entrypoint: []string{"sleep", "60"},
					Labels: map[string]string{ownerLabel: deadOwner},
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := removeOrphans(t.Context(), m.pool); err != nil {
					t.Fatal(err)
				}
				gone := new(docker.NoSuchContainer)
				if _, err := m.pool.Client.InspectContainer(orphan.Container.ID); !errors.As(err, &gone) {
					t.Errorf("the orphan is still there: %v", errors.Join(err, orphan.Close()))
				}
			}
			if err := s.Exec(t.Context(), "postgres", "SELECT 1"); err != nil {
				t.Errorf("a server in use was taken for an orphan: %v", err)
			}
		})
	}
}

func TestContainerDiesWhenItsTimeIsOver(t *testing.T) {
	for _, way := range ownWays(t) {
		if way != Docker {
			continue
		}
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			s := start(t, Options{Name: "brief", Way: way, Fast: true, Life: 4 * time.Second})
			for deadline := time.Now().Add(30 * time.Second); s.machine.running(); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the container still runs")
				}
			}
		})
	}
}

func TestDatabasesAreFreshAndDropped(t *testing.T) {
	var dropped []string
	t.Run("use", func(t *testing.T) {
		dropped = Databases(t, 3)
		for _, database := range dropped {
			// Each is empty, and a transaction left prepared and an open session do not keep it.
			if err := execSQL(t.Context(), database, "CREATE TABLE t (n int)"); err != nil {
				t.Fatal(err)
			}
			conn, err := pgx.Connect(t.Context(), database)
			if err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{"BEGIN", "INSERT INTO t VALUES (1)",
				"PREPARE TRANSACTION '" + filepath.Base(database) + "'"} {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	for _, database := range dropped {
		var refused *pgconn.PgError
		err := execSQL(t.Context(), database, "SELECT 1")
		if !errors.As(err, &refused) || refused.Code != "3D000" {
			t.Errorf("the database is still there: %v", err)
		}
	}
}

func TestDatabasesAreOnDifferentServers(t *testing.T) {
	servers, err := sharedServers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ports := map[string]bool{}
	for _, database := range Databases(t, len(servers)) {
		ports[read(t, database, "SELECT current_setting('data_directory') || current_setting('port') || "+
			"(pg_control_system()).system_identifier")] = true
	}
	if len(ports) != len(servers) {
		t.Errorf("%d databases are on %d servers", len(servers), len(ports))
	}
}

func TestChoose(t *testing.T) {
	own := ownWays(t)[0]
	tests := []struct {
		name         string
		forced, urls string
		want         Way
		fails        bool
	}{
		{name: "URLs come first", urls: "postgres://a/b, postgres://c/d", want: URLs},
		{name: "then what the machine has", forced: os.Getenv(waysVariable), want: own},
		{name: "one may be forced", forced: string(own), urls: "postgres://a/b", want: own},
		{name: "URLs forced but missing", forced: "urls", fails: true},
		{name: "an unknown way", forced: "podman", fails: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(waysVariable, test.forced)
			t.Setenv(urlsVariable, test.urls)
			got, reason, err := Choose(t.Context())
			if got != test.want || (err != nil) != test.fails || (reason == "") != test.fails {
				t.Errorf("Choose() = %q, %q, %v; want %q, error %t", got, reason, err, test.want, test.fails)
			}
		})
	}
}

func wantSettings(t *testing.T, database string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		got[name] = read(t, database, "SELECT current_setting('"+name+"')")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// read runs a query that gives one text.
func read(t *testing.T, database, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var text string
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}
