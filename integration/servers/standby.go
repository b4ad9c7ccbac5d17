package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Follow has a standby stream from a primary under its own name: what is committed there arrives here, for as long as both
// run, and again after either was away. It is called again when the primary has started anew as a container, whose address
// changes.
func (s *Server) Follow(ctx context.Context, primary *Server) error {
	host, port, err := primary.machine.address()
	if err != nil {
		return err
	}
	info := fmt.Sprintf("host=%s port=%d user=%s password=%s application_name=%s", host, port, Superuser, primary.password, quoted(s.name))
	return errors.Join(
		s.Exec(ctx, "postgres", "ALTER SYSTEM SET primary_conninfo = "+quoted(info)), // alone: several statements are a transaction, which would be refused
		// A primary's list of standbys comes with its copy, and would be in force here after a promotion.
		s.Exec(ctx, "postgres", "ALTER SYSTEM RESET synchronous_standby_names"),
		s.Exec(ctx, "postgres", "SELECT pg_reload_conf()"))
}

// WaitFor makes the primary wait at each commit until one of the standbys has it, or never again if none is given. The
// standbys must follow it, and be able to answer now. When it returns, what commits waits, whatever becomes of them.
func (s *Server) WaitFor(ctx context.Context, standbys ...*Server) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var names []string
	for _, standby := range standbys {
		names = append(names, pgx.Identifier{standby.name}.Sanitize())
	}
	err := errors.Join(
		s.Exec(ctx, "postgres", "ALTER SYSTEM SET synchronous_standby_names = "+quoted(strings.Join(names, ", "))),
		s.Exec(ctx, "postgres", "SELECT pg_reload_conf()"))
	if err != nil || len(standbys) == 0 {
		return err
	}
	// The setting is read by several processes, each in its own time. It is in force when a commit waits: for standbys
	// that do not replay what they get.
	pause := func(sql string) (err error) {
		for _, standby := range standbys {
			err = errors.Join(err, standby.Exec(ctx, "postgres", sql))
		}
		return err
	}
	err = pause("SELECT pg_wal_replay_pause()")
	if err == nil {
		err = s.awaitWaiting(ctx)
	}
	return errors.Join(err, pause("SELECT pg_wal_replay_resume()"))
}

// awaitWaiting commits until one that wants to be replayed by a standby waits for it.
func (s *Server) awaitWaiting(ctx context.Context) error {
	const commit = "SET synchronous_commit = remote_apply; BEGIN; SELECT pg_logical_emit_message(true, 'hare', 'anything'); COMMIT"
	looking, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer looking.Close(ctx)
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err != nil {
			return err
		}
		pid, committed := conn.PgConn().PID(), make(chan error, 1)
		go func() {
			_, err := conn.Exec(ctx, commit)
			committed <- errors.Join(err, conn.Close(context.Background())) // it goes on when the replay does
		}()
		for waits, done := false, false; !done; {
			err := looking.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep')", pid).Scan(&waits)
			if err != nil || waits {
				return err
			}
			select {
			case err := <-committed:
				if done = true; err != nil {
					return err
				}
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

// Waiting is how many sessions of the primary are committed and wait for a standby.
func (s *Server) Waiting(ctx context.Context) (n int, err error) {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&n)
	return n, err
}

// Promote ends a standby's recovery: it is a primary when it returns.
func (s *Server) Promote(ctx context.Context) error {
	return s.Exec(ctx, "postgres", `DO $$ BEGIN IF NOT pg_promote() THEN RAISE 'the standby was not promoted in time'; END IF; END $$`)
}
