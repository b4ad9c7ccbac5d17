package sqlite

import (
	"context"
	"testing"
	"unsafe"

	"github.com/hare-go/hare/hare/backend"
)

type payload struct {
	fields
}

func BenchmarkX(b *testing.B) {
	db := openFile(b, "")
	c := acquire(b, db)
	exec(b, c, "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT, flag BOOLEAN, at TIMESTAMP, f REAL, n TEXT, blob BLOB)")
	var runs [][]any
	for i := range 1000 {
		runs = append(runs, []any{"title of the thing", "some other text here", true, when, float64(i)*1.5, nil, []byte("0123456789abcdef")})
	}
	ins := "INSERT INTO t (a,b,flag,at,f,n,blob) VALUES ($1,$2,$3,$4,$5,$6,$7) RETURNING id"
	c.Exec(context.Background(), backend.Call{SQL: ins, Batch: runs})
	var stored []any
	m := map[string]backend.Dest{}
	for _, d := range destsOf(&stored) { m[d.Field] = d }
	dests := []backend.Dest{m["Int64"], m["String"], m["String"], m["Bool"], m["Time"], m["Float64"], m["PString"], m["Bytes"]}
	get := func(ctx context.Context, c backend.Conn, sql string, args []any) {
		rows, err := c.Query(ctx, backend.Call{SQL: sql, Args: args})
		if err != nil { b.Fatal(err) }
		for rows.Next() {
			var f fields
			if err := rows.Scan(unsafe.Pointer(&f), dests); err != nil { b.Fatal(err) }
		}
		if err := rows.Close(); err != nil { b.Fatal(err) }
	}
	ctx := context.Background()
	b.Run("get", func(b *testing.B) { b.ReportAllocs(); args := []any{int64(500)}
		for b.Loop() { get(ctx, c, "SELECT id,a,b,flag,at,f,n,blob FROM t WHERE id=$1", args) } })
	b.Run("get-acquire", func(b *testing.B) { b.ReportAllocs(); args := []any{int64(500)}
		for b.Loop() { c, _ := db.Acquire(ctx); get(ctx, c, "SELECT id,a,b,flag,at,f,n,blob FROM t WHERE id=$1", args); c.Release() } })
	b.Run("list1000", func(b *testing.B) { b.ReportAllocs()
		for b.Loop() { get(ctx, c, "SELECT id,a,b,flag,at,f,n,blob FROM t LIMIT 1000", nil) } })
	b.Run("insert1", func(b *testing.B) { b.ReportAllocs()
		for b.Loop() { c.Exec(ctx, backend.Call{SQL: ins, Args: runs[0]}) } })
	b.Run("insert100", func(b *testing.B) { b.ReportAllocs()
		for b.Loop() { r, err := c.Query(ctx, backend.Call{SQL: ins, Batch: runs[:100]}); if err != nil {b.Fatal(err)}; for r.Next() {}; r.Close() } })
	b.Run("tx", func(b *testing.B) { b.ReportAllocs(); args := []any{int64(500)}
		bg := []string{"BEGIN IMMEDIATE"}
		for b.Loop() {
			c.Exec(ctx, backend.Call{Before: bg, SQL: "UPDATE t SET a = 'x' WHERE id = $1", Args: args})
			c.Exec(ctx, backend.Call{SQL: "UPDATE t SET b = 'x' WHERE id = $1", Args: args})
			c.Control(ctx, "COMMIT")
		} })
	b.Run("emptytx", func(b *testing.B) { b.ReportAllocs()
		for b.Loop() { c.Control(ctx, "BEGIN IMMEDIATE"); c.Control(ctx, "COMMIT") } })
}
