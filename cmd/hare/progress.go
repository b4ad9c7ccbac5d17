package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/hare-go/hare/transactions"
)

// progress tells how a long run goes: on a terminal in a line that is rewritten and removed in the end, elsewhere in a
// line now and then. A run that takes but a moment shows none.
type progress struct {
	to    screen
	begun time.Time

	mu          sync.Mutex
	done, total int
	shown       bool

	stopped chan struct{}
	over    sync.WaitGroup
}

// startProgress tells for the first time after some patience, and then every so often.
func startProgress(to screen, patience, every time.Duration) *progress {
	p := &progress{to: to, begun: time.Now(), stopped: make(chan struct{})}
	p.over.Go(func() {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		for {
			select {
			case <-p.stopped:
				return
			case <-timer.C:
				p.tell()
				timer.Reset(every)
			}
		}
	})
	return p
}

// progressOn is the progress with the times that fit the screen.
func progressOn(to screen) *progress {
	if to.terminal {
		return startProgress(to, 2*time.Second, 500*time.Millisecond)
	}
	return startProgress(to, 10*time.Second, 10*time.Second)
}

// step is called after each prepared transaction.
func (p *progress) step(done, total int, _ transactions.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total = done, total
}

func (p *progress) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("looking into the databases for %s; one that does not answer is given up after 30s", short(time.Since(p.begun)))
	if p.total > 0 {
		text = fmt.Sprintf("%d of %d prepared transactions done after %s", p.done, p.total, short(time.Since(p.begun)))
	}
	p.shown = true
	if p.to.terminal {
		fmt.Fprint(p.to, rewrite+p.to.cut(text))
	} else {
		fmt.Fprintln(p.to, text)
	}
}

// stop ends the telling, and leaves no trace of it on a terminal.
func (p *progress) stop() {
	close(p.stopped)
	p.over.Wait()
	if p.shown && p.to.terminal {
		fmt.Fprint(p.to, rewrite)
	}
}

// short is a duration as people say it: two units at most.
func short(d time.Duration) string {
	d = d.Round(time.Second)
	days, hours, minutes, seconds := d/(24*time.Hour), d/time.Hour%24, d/time.Minute%60, d/time.Second%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}
