package transactions

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hare-go/hare/hare/backend"
	"github.com/hare-go/hare/internal/session"
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
	remove, keep []any // xids
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
		if len(f.remove) > 0 {
			err = execXIDs(ctx, conn, `DELETE FROM `+decisionsTable+` WHERE xid = ANY($1::text[]) AND outcome = 'commit'`, f.remove)
		}
		if len(f.keep) > 0 && err == nil {
			err = execXIDs(ctx, conn, `UPDATE `+decisionsTable+` SET resolved_at = clock_timestamp() WHERE xid = ANY($1::text[]) AND resolved_at IS NULL`, f.keep)
		}
	}
	if err != nil {
		f.log.LogAttrs(ctx, slog.LevelDebug, "decisions are left to recovery to resolve", slog.Int("decisions", len(f.remove)+len(f.keep)), slog.Any("error", err))
	}
}

// execXIDs runs a statement about decisions without waiting for its flush: what a crash of the server undoes recovery does
// again, and the coordinator's disk is busy with decisions that must not wait.
func execXIDs(ctx context.Context, conn backend.Conn, sql string, xids []any) error {
	_, err := conn.Exec(ctx, backend.Call{
		Before: []string{beginWrite, "SET LOCAL synchronous_commit = off"},
		SQL:    sql,
		Args:   []any{textList(xids)},
	})
	return endOwn(ctx, conn, err)
}
