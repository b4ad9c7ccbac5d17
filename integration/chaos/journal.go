package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A worker keeps a journal, which survives its SIGKILL: what it is about to do, and what it was told of the end. Each line is one
// write to the file, so that at most the last one can be torn.

// line is one line of a journal. Besides At it has a Call and one of the others, or Recovered.
type line struct {
	At        time.Time
	Call      string     `json:",omitempty"`
	Intent    *intent    `json:",omitempty"` // before the call
	XID       string     `json:",omitempty"` // inside it, once for each attempt, and with each hook
	Hook      hook       `json:",omitempty"` // one has run
	Result    *result    `json:",omitempty"` // after it
	Recovered *recovered `json:",omitempty"` // what recovery did to one prepared transaction
}

// intent is what a call is about to do.
type intent struct {
	Coordinator  string
	Legs         []leg // one for each database; the amounts add up to zero
	Fate         fate
	Timeout      time.Duration
	Serializable bool `json:",omitempty"`
	Keep         bool `json:",omitempty"` // KeepDecision
}

// leg is a call's part in one database.
type leg struct {
	Database string
	Account  int64
	Amount   int64 // 0: it only reads
	Refused  bool  `json:",omitempty"` // a deferred trigger refuses it when the transaction ends
	// Become is a statement by which the callback goes on as another role: before its writes, or else after them.
	Become string `json:",omitempty"`
	First  bool   `json:",omitempty"`
}

// fate is what the callback comes to.
type fate string

const (
	fateCommit  fate = "commit"
	fateFail    fate = "fail"    // the callback returns an error
	fateRefuse  fate = "refuse"  // a database refuses at its end
	fateSwallow fate = "swallow" // a statement fails, and the callback returns nil all the same
)

// hook is which of the two has run that every attempt registers on its coordinator.
type hook string

const (
	hookCommit   hook = "commit"
	hookRollback hook = "rollback"
)

// result is what the caller was told.
type result struct {
	Outcome string
	Error   string   `json:",omitempty"`
	Pending []string `json:",omitempty"` // GIDs that the error says may still be prepared
	Took    time.Duration
}

// recovered is a prepared transaction that recovery has acted on.
type recovered struct {
	GID, Action, State, Error string
	// Began is when that recovery began: what it finished was prepared then or later. Zero where it is not known.
	Began time.Time
}

// journal writes.
type journal struct{ file *os.File }

func journalName(dir string, worker, incarnation int) string {
	return filepath.Join(dir, fmt.Sprintf("worker-%d.%d.journal", worker, incarnation))
}

func createJournal(name string) (*journal, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file}, err
}

// write writes one line. It is used by several goroutines, whose writes do not mix.
func (j *journal) write(l line) error {
	l.At = time.Now()
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(text, '\n'))
	return err
}

// readJournals reads every journal of a directory.
func readJournals(dir string) ([]line, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil {
		return nil, err
	}
	var all []line
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		lines, err := parseJournal(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, lines...)
	}
	return all, nil
}

// parseJournal reads a journal without its torn end.
func parseJournal(content []byte) ([]line, error) {
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	var lines []line
	scanner := bufio.NewScanner(bytes.NewReader(content))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%w in %s", err, scanner.Text())
		}
		lines = append(lines, l)
	}
	return lines, scanner.Err()
}
