package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The modes of a pooler.
const (
	TransactionMode = "transaction" // each transaction gets any session of the pool
	SessionMode     = "session"     // a client keeps its session for as long as it is connected
)

// TrackedNowhere are the start-up parameters that PgBouncer ignores where [PoolerOptions].IgnoreStartup says so, and
// refuses otherwise.
const TrackedNowhere = "extra_float_digits,statement_timeout,lock_timeout,idle_in_transaction_session_timeout,search_path,options"

// PoolerOptions says what pooler to start.
type PoolerOptions struct {
	// URL is of any database of the server that the pooler stands in front of. Its role is the one that every client
	// gets, whatever name and password it logs in with.
	URL string
	// OwnRoles: every client logs in with the name and password of a role of the server, and gets that one. The role of
	// the URL must be a superuser then, who may read the passwords.
	OwnRoles bool
	// Mode is TransactionMode, the default, or SessionMode.
	Mode string
	// PoolSize is how many sessions the pooler opens for each database. Default: 8.
	PoolSize int
	// IgnoreStartup: start-up parameters of no effect are accepted and dropped instead of refused.
	IgnoreStartup bool
	// Settings are added to PgBouncer's configuration and win over the defaults.
	Settings map[string]string
	// Database is where every name leads. Default: each to the database of that name.
	Database string
}

// Pooler is a running PgBouncer in front of a server. It serves every database of the server.
type Pooler struct {
	child
	program   string
	directory string
	port      int
	options   PoolerOptions
	admin     *url.Userinfo     // who may give commands
	led       map[string]string // lines of the configuration about databases that lead elsewhere
}

// StartPooler starts a pooler and waits until it answers. PgBouncer must be installed, or this process must be root on
// Debian or its like. The caller must close the pooler; on Linux it dies with the process that started it.
func StartPooler(ctx context.Context, opts PoolerOptions) (*Pooler, error) {
	program, err := pgbouncer(ctx)
	if err != nil {
		return nil, err
	}
	credential, err := unprivileged()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	removeOrphanDirectories()
	directory, err := os.MkdirTemp("", fmt.Sprintf("%s%d-pooler-", directoryPrefix, os.Getpid()))
	if err != nil {
		return nil, err
	}
	p := &Pooler{
		child:   newChild(filepath.Join(directory, "log"), credential),
		program: program, directory: directory, port: port, options: opts, admin: url.User(Superuser),
		led: map[string]string{},
	}
	err = p.configure()
	if err == nil {
		err = p.Restart(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// PoolerFor starts a pooler that is closed at the end of the test.
func PoolerFor(tb testing.TB, opts PoolerOptions) *Pooler {
	tb.Helper()
	p, err := StartPooler(tb.Context(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return p
}

// configure writes the configuration, which holds the server's password, for the pooler's user only.
func (p *Pooler) configure() error {
	opts := p.options
	server, err := url.Parse(opts.URL)
	if err != nil {
		return errors.New("the server's address is no URL") // which may hold a password
	}
	direct.Store(p.Host(), server.Host)
	password, _ := server.User.Password()
	all := map[string]string{
		"listen_addr":     "127.0.0.1",
		"listen_port":     strconv.Itoa(p.port),
		"unix_socket_dir": "",
		// Anybody may come in, at 127.0.0.1, and is the role of the URL.
		"auth_type":         "any",
		"admin_users":       p.admin.Username(),
		"pool_mode":         cmp.Or(opts.Mode, TransactionMode),
		"default_pool_size": strconv.Itoa(cmp.Or(opts.PoolSize, 8)),
		"max_client_conn":   "1000",
		// A server that a test has killed is tried again soon.
		"server_login_retry": "1",
	}
	if opts.IgnoreStartup {
		all["ignore_startup_parameters"] = TrackedNowhere
	}
	home := leading(server, !opts.OwnRoles)
	if opts.OwnRoles {
		// The URL's role looks up the others, whose passwords PgBouncer learns by the very log-in that it passes on.
		p.admin = server.User
		all["auth_type"], all["auth_file"] = "scram-sha-256", p.users()
		all["auth_user"], all["admin_users"] = server.User.Username(), server.User.Username()
	}
	maps.Copy(all, opts.Settings)
	var text strings.Builder
	if opts.Database != "" {
		home += " dbname=" + quoted(opts.Database)
	}
	text.WriteString("[databases]\n")
	for _, name := range slices.Sorted(maps.Keys(p.led)) {
		fmt.Fprintf(&text, "%s = %s\n", name, p.led[name])
	}
	fmt.Fprintf(&text, "* = %s\n\n[pgbouncer]\n", home)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s = %s\n", name, all[name])
	}
	users := fmt.Sprintf("\"%s\" \"%s\"\n", doubled(server.User.Username()), doubled(password))
	files := map[string]string{p.directory: "", p.configuration(): text.String(), p.users(): users}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if file != p.directory {
			if err := os.WriteFile(file, []byte(files[file]), 0o600); err != nil {
				return err
			}
		}
		if p.credential != nil {
			if err := os.Chown(file, int(p.credential.Uid), int(p.credential.Gid)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Lead leads the clients of a database to another one from now on, given its URL, whose role they get; the URL of their own
// leads them back. Their connections stay: the next transaction of each is elsewhere, and one that is open ends where it began.
func (p *Pooler) Lead(ctx context.Context, database, to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return errors.New("the other database's address is no URL") // which may hold a password
	}
	return p.reload(ctx, database, leading(u, true)+" dbname="+quoted(strings.TrimPrefix(u.Path, "/")))
}

// Greet has every server connection of a database begin with the statement from now on, and replaces those that are there.
func (p *Pooler) Greet(ctx context.Context, database, sql string) error {
	server, err := url.Parse(p.options.URL)
	if err != nil {
		return errors.New("the server's address is no URL") // which may hold a password
	}
	return p.reload(ctx, database, leading(server, true)+" dbname="+quoted(database)+" connect_query="+quoted(sql))
}

// reload gives a database a line of its own in the configuration.
func (p *Pooler) reload(ctx context.Context, database, line string) error {
	p.led[database] = line
	if err := p.configure(); err != nil {
		return err
	}
	return errors.Join(p.Command(ctx, "RELOAD"), p.Command(ctx, "RECONNECT "+database))
}

// leading is the way to a server in PgBouncer's configuration.
func leading(server *url.URL, role bool) string {
	way := fmt.Sprintf("host=%s port=%s", server.Hostname(), cmp.Or(server.Port(), "5432"))
	if role {
		password, _ := server.User.Password()
		way += fmt.Sprintf(" user=%s password=%s", quoted(server.User.Username()), quoted(password))
	}
	return way
}

// doubled is a text between the quotes of PgBouncer's list of users.
func doubled(text string) string { return strings.ReplaceAll(text, `"`, `""`) }

// quoted is a value of PgBouncer's connection strings.
func quoted(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

func (p *Pooler) configuration() string { return filepath.Join(p.directory, "pgbouncer.ini") }

func (p *Pooler) users() string { return filepath.Join(p.directory, "users.txt") }

// Host is the pooler's address, host:port. It stays the same over restarts.
func (p *Pooler) Host() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// URL is the way through the pooler to a database of its server, given the way past it.
func (p *Pooler) URL(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		return "" // no URL, which may hold a password
	}
	u.Host = p.Host()
	return u.String()
}

// Command runs a command of PgBouncer's console, for example RECONNECT, after which every session is a new one.
func (p *Pooler) Command(ctx context.Context, command string) error {
	return execSQL(ctx, p.console(), command)
}

// console is the URL of PgBouncer's own database.
func (p *Pooler) console() string {
	u := url.URL{Scheme: "postgres", User: p.admin, Host: p.Host(), Path: "/pgbouncer", RawQuery: "sslmode=disable"}
	return u.String()
}

// Kill ends the pooler at once, as kill -9 does, and with it every connection through it.
func (p *Pooler) Kill(ctx context.Context) error { return p.kill(ctx) }

// Pause freezes the pooler: connections stay open and nothing answers.
func (p *Pooler) Pause(ctx context.Context) error { return p.pause(ctx) }

// Resume lets a paused pooler go on.
func (p *Pooler) Resume(ctx context.Context) error { return p.resume(ctx) }

// Restart ends the pooler, if it runs, starts it again at the same address, and waits until it answers.
func (p *Pooler) Restart(ctx context.Context) error {
	if p.running() {
		if err := p.kill(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := p.launch(p.directory, p.program, p.configuration()); err != nil {
		return err
	}
	for {
		err := p.Command(ctx, "SHOW VERSION")
		if err == nil {
			return nil
		}
		if !p.running() || ctx.Err() != nil {
			return fmt.Errorf("PgBouncer did not start: %w\n%s", err, p.log())
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Running says whether the pooler has not ended, by itself or otherwise.
func (p *Pooler) Running() bool { return p.running() }

// Log is the end of what the pooler has written.
func (p *Pooler) Log() string { return p.log() }

// Close ends the pooler, whatever state it is in, and removes its files.
func (p *Pooler) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if p.running() {
		if err := p.kill(ctx); err != nil {
			return err
		}
	}
	return os.RemoveAll(p.directory)
}

// pgbouncer finds PgBouncer and, as root on Debian and its like, installs it if there is none.
func pgbouncer(ctx context.Context) (string, error) {
	if program, ok := findPgbouncer(); ok {
		return program, nil
	}
	if _, err := os.Stat("/etc/debian_version"); err != nil || os.Getuid() != 0 {
		return "", errors.New("PgBouncer is not installed: apt install pgbouncer, brew install pgbouncer, or as your system has it, so that pgbouncer is in PATH")
	}
	// The policy keeps Debian from starting a pooler of its own.
	install := exec.CommandContext(ctx, "sh", "-c", `
		export DEBIAN_FRONTEND=noninteractive
		apt="apt-get -qq -o DPkg::Lock::Timeout=300"
		policy=/usr/sbin/policy-rc.d
		if [ ! -e $policy ]; then
			trap 'rm -f $policy' EXIT
			printf '#!/bin/sh\nexit 101\n' >$policy
			chmod +x $policy
		fi
		$apt update
		$apt install -y --no-install-recommends pgbouncer`)
	output, err := install.CombinedOutput()
	if program, ok := findPgbouncer(); ok {
		return program, nil
	}
	return "", fmt.Errorf("PgBouncer is not installed and cannot be: %w\n%s", err, tail(output))
}

// findPgbouncer looks where packages put it.
func findPgbouncer() (string, bool) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, true
	}
	for _, path := range []string{"/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer"} {
		if executable(path) {
			return path, true
		}
	}
	return "", false
}
