package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// crew are the workers. Each member is used by one goroutine at a time.
type crew struct {
	cluster *cluster
	dir     string
	seed    uint64
	members []*member

	mu     sync.Mutex
	faults []violation // of the workers themselves
}

// member is a worker, whichever process it is at present.
type member struct {
	number, incarnation int
	process             *process // nil while there is none
}

// process is one life of a worker.
type process struct {
	cmd     *exec.Cmd
	orders  io.WriteCloser
	resting chan struct{} // closed when its calls are over
	ended   chan struct{}
	killed  atomic.Bool // by us
}

// stopTime bounds how long a worker may take over its last calls when nothing is in their way any more.
const stopTime = 30 * time.Second

func startCrew(c *cluster, dir string, o options) (*crew, error) {
	w := &crew{cluster: c, dir: dir, seed: o.seed}
	for n := range o.workers {
		w.members = append(w.members, &member{number: n})
	}
	for _, m := range w.members {
		if err := w.start(m); err != nil {
			return w, err
		}
	}
	return w, nil
}

// start begins a worker's next life.
func (w *crew) start(m *member) error {
	m.incarnation++
	text, err := json.Marshal(assignment{Worker: m.number, Incarnation: m.incarnation, Seed: w.seed, Dir: w.dir, URLs: w.cluster.workerURLs(m.number)})
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(w.logName(m), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(program, workerArgument), resting: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the parent, which ends them
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	answers, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	m.process = p
	name := fmt.Sprintf("worker %d.%d", m.number, m.incarnation)
	go w.watch(p, name, answers)
	_, err = p.orders.Write(append(text, '\n'))
	return err
}

func (w *crew) logName(m *member) string {
	return filepath.Join(w.dir, fmt.Sprintf("worker-%d.%d.log", m.number, m.incarnation))
}

// watch waits for the end of a process.
func (w *crew) watch(p *process, name string, answers io.Reader) {
	lines := bufio.NewScanner(answers)
	for lines.Scan() {
		if lines.Text() == restingAnswer {
			close(p.resting)
		}
	}
	err := p.cmd.Wait()
	if err != nil && !p.killed.Load() {
		w.fault(violation{Kind: "a worker ended by itself", Text: fmt.Sprintf("%s: %v; see its log", name, err)})
	}
	close(p.ended)
}

func (w *crew) fault(v violation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, v)
}

// kill ends a worker as kill -9 does.
func (w *crew) kill(m *member) {
	if m.process == nil {
		return
	}
	m.process.killed.Store(true)
	_ = m.process.cmd.Process.Kill() // it may have ended
	<-m.process.ended
	m.process = nil
}

// signal pauses a worker or lets it go on.
func (m *member) signal(s syscall.Signal) error {
	if err := m.process.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil // that it has ended by itself is noted elsewhere
}

// rest ends the calls of all workers, which go on with recovery.
func (w *crew) rest() {
	w.each("its calls did not end", func(p *process) <-chan struct{} {
		_, _ = io.WriteString(p.orders, restOrder+"\n") // one that has ended is known to have
		return p.resting
	})
}

// stop ends all workers in order.
func (w *crew) stop() {
	w.each("it did not end", func(p *process) <-chan struct{} {
		_ = p.orders.Close() // one that has ended is known to have
		return p.ended
	})
}

// each asks something of every worker and waits for it; one that does not come to it in time is a fault, and its log says
// what its goroutines were doing.
func (w *crew) each(fault string, ask func(p *process) <-chan struct{}) {
	var wait sync.WaitGroup
	for _, m := range w.members {
		p := m.process
		if p == nil {
			continue
		}
		wait.Go(func() {
			select {
			case <-ask(p):
			case <-p.ended:
			case <-time.After(stopTime):
				w.fault(violation{Kind: "a worker hangs", Text: fmt.Sprintf("worker %d.%d: %s within %v; see %s", m.number, m.incarnation, fault, stopTime, w.logName(m))})
				p.killed.Store(true)
				_ = p.cmd.Process.Signal(syscall.SIGQUIT) // the Go runtime writes its goroutines to the log
				<-p.ended
			}
		})
	}
	wait.Wait()
}

// close kills whoever is left.
func (w *crew) close() {
	for _, m := range w.members {
		w.kill(m)
	}
}
