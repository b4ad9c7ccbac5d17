package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// leaseURL is the environment variable that tells a program the database.
const leaseURL = "HARE_TEST_LEASE_URL"

// leaseReport is what the program "lease" says, one JSON value a line.
type leaseReport struct {
	Token   int64
	Over    bool // the term, when it looked
	Stopped bool // the ctx of Run's function has ended
	Lost    bool // the fenced write was refused because of that
	Written bool
}

// leaseProgram holds the lease "job" and, for each line on its standard input, looks at its term and writes a fenced note.
func leaseProgram() {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx := context.Background()
	conns, err := hare.Open(ctx, hare.Config{Connections: map[string]string{"main": os.Getenv(leaseURL)}})
	if err != nil {
		fail(err)
	}
	defer conns.Close()
	ctx = hare.WithConnections(ctx, conns)
	client, err := conns.Client("main")
	if err != nil {
		fail(err)
	}
	out := json.NewEncoder(os.Stdout)
	err = leases.New(client, "job", briefly).Run(ctx, func(inside context.Context, term *leases.Term) error {
		say := func(r leaseReport) {
			if err := out.Encode(r); err != nil {
				os.Exit(3) // nobody listens any more
			}
		}
		say(leaseReport{Token: term.Token()})
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			r := leaseReport{Token: term.Token(), Over: term.Err() != nil}
			err := transactions.Atomic(ctx, func(ctx context.Context) error {
				if err := term.Fence(ctx); err != nil {
					return err
				}
				return Notes.Create(ctx, &Note{Text: fmt.Sprint("term ", term.Token())})
			})
			var lost *leases.LeaseLostError
			r.Lost, r.Written = errors.As(err, &lost), err == nil
			if r.Over {
				select {
				case <-inside.Done():
					r.Stopped = errors.As(context.Cause(inside), &lost)
				case <-time.After(30 * time.Second):
				}
			}
			say(r)
		}
		return nil
	})
	if err != nil {
		fail(err)
	}
}

// look makes the program look at its term.
func (p *process) look() {
	p.t.Helper()
	if _, err := io.WriteString(p.orders, "look\n"); err != nil {
		p.t.Fatalf("%v\n%s", err, &p.stderr)
	}
}

// says is what the program says next.
func (p *process) says() (r leaseReport) {
	p.t.Helper()
	if err := p.words.Decode(&r); err != nil {
		p.t.Fatalf("the program says nothing: %v\n%s", err, &p.stderr)
	}
	return r
}

// A process that stood still for longer than its term, while another one took over, knows it the moment it goes on: its term
// is over, the ctx of its function has ended, and its fenced write is refused.
//
// Lease field case 17.
func TestLeaseOfAProcessThatStoodStill(t *testing.T) {
	t.Parallel()
	f := newLeasing(t)
	p := launch(t, "lease", leaseURL+"="+f.urls["c"])
	if r := p.says(); r.Token != 1 {
		t.Fatalf("it says %+v", r)
	}
	p.look()
	if r := p.says(); !r.Written || r.Over {
		t.Fatalf("a fenced write: %+v", r)
	}
	p.pause()
	next := f.acquire(f.lease(f.client("c"), "job", briefly))
	p.look() // it is the first thing that it does when it goes on
	p.resume()
	if r := p.says(); !r.Over || !r.Stopped || !r.Lost || r.Written {
		t.Errorf("it says %+v", r)
	}
	if n := f.count("c", "SELECT count(*) FROM note"); n != 1 {
		t.Errorf("%d notes, want one", n)
	}
	if next.Token() != 2 || next.Err() != nil {
		t.Errorf("term %d: %v", next.Token(), next.Err())
	}
}

// When the holder is killed, the next one leads when the lease has lapsed, and soon after.
//
// Lease field case 20.
func TestLeaseOfAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	f := newLeasing(t)
	p := launch(t, "lease", leaseURL+"="+f.urls["c"])
	p.says()
	l := f.lease(f.client("c"), "job", briefly)
	f.held(l)
	p.kill()
	if err := p.cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	start, left := time.Now(), f.left()
	next := f.acquire(l)
	if took := time.Since(start); took > left+2*briefly.Poll+slack || took < left-time.Second {
		t.Errorf("the next leads after %v, and the lease lapsed after %v", took, left)
	}
	if next.Token() != 2 {
		t.Errorf("token %d", next.Token())
	}
}
