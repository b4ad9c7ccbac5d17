package transactions

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/session"
	"github.com/hare-go/hare/internal/tables"
)

// A decision that every participant has confirmed is of no more use. The call that made it takes it away, off the
// caller's path and together with those of other calls. Only that call may: it knows the end of its own COMMIT, whereas
// recovery, finding the row finished, cannot know whether a call that lost the answer is about to look for it.
//
// What fails here is no failure of any call: recovery finds the row resolved.

// gather is how long a finished decision waits for others to share its statement with.
const gather = 20 * time.Millisecond

// resolveTime bounds one statement of it, waiting for a connection of the pool included.
const resolveTime = 10 * time.Second

// resolving holds what is finished and not yet taken away. A database that has an entry has a goroutine at work.
var resolving = struct {
	sync.Mutex
	finished map[backend.Database]*finished
}{finished: map[backend.Database]*finished{}}

type finished struct {
	remove, keep []string // xids
	log          *slog.Logger
	idle         chan struct{} // closed when the goroutine has ended
}

// resolve takes the row of a decision away, or marks it as resolved when it is to be kept.
func resolve(db backend.Database, xid string, keep bool, log *slog.Logger) {
	resolving.Lock()
	defer resolving.Unlock()
	f := resolving.finished[db]
	if f == nil {
		f = &finished{log: log, idle: make(chan struct{})}
		resolving.finished[db] = f
		session.BeforeClose(db, "decisions", func() { drain(db) })
		go resolveAll(db)
	}
	if keep {
		f.keep = append(f.keep, xid)
	} else {
		f.remove = append(f.remove, xid)
	}
}

// resolveAll works until nothing is left.
func resolveAll(db backend.Database) {
	for {
		time.Sleep(gather)
		resolving.Lock()
		f := resolving.finished[db]
		if len(f.remove) == 0 && len(f.keep) == 0 {
			delete(resolving.finished, db)
			close(f.idle)
			resolving.Unlock()
			return
		}
		resolving.finished[db] = &finished{log: f.log, idle: f.idle}
		resolving.Unlock()
		f.write(db)
	}
}

// drainTime bounds how long closing the connections waits for the last decisions.
const drainTime = 2 * time.Second

// drain waits until what is finished has been taken away: a program that ends right after its last call leaves no rows.
func drain(db backend.Database) {
	resolving.Lock()
	f := resolving.finished[db]
	resolving.Unlock()
	if f == nil {
		return
	}
	select {
	case <-f.idle:
	case <-time.After(drainTime):
	}
}

func (f *finished) write(db backend.Database) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTime)
	defer cancel()
	conn, err := db.Acquire(ctx)
	if err == nil {
		defer conn.Release()
		_, err = conn.Control(ctx, f.statements()...)
	}
	if err != nil {
		f.log.LogAttrs(ctx, slog.LevelDebug, "decisions are left to recovery to resolve", slog.Int("decisions", len(f.remove)+len(f.keep)), slog.Any("error", err))
	}
}

// statements travel in one message: a program that is stopped at any instant leaves no transaction open behind it that holds
// these rows. Nobody waits for the flush: what a crash of the server undoes recovery does again, and the coordinator's disk is
// busy with decisions that must not wait.
func (f *finished) statements() []string {
	statements := []string{beginWrite, tables.Path, "SET LOCAL synchronous_commit = off"}
	if len(f.remove) > 0 {
		statements = append(statements, "DELETE FROM "+decisionsTable+" WHERE outcome = 'commit' AND xid IN "+literals(f.remove))
	}
	if len(f.keep) > 0 {
		statements = append(statements, "UPDATE "+decisionsTable+" SET resolved_at = clock_timestamp() WHERE resolved_at IS NULL AND xid IN "+literals(f.keep))
	}
	return append(statements, "COMMIT")
}

// literals are the values as a list for IN.
func literals(values []string) string {
	var list strings.Builder
	separator := "("
	for _, v := range values {
		list.WriteString(separator)
		list.WriteString(backend.Literal(v))
		separator = ", "
	}
	list.WriteString(")")
	return list.String()
}
