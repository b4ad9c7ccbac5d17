package servers

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// children are the processes that a process has started. A server's processes are all children of its first.
func children(parent int) []int {
	var found []int
	for _, p := range processes() {
		if p.parent == parent {
			found = append(found, p.pid)
		}
	}
	return found
}

// alive says whether a process runs; one that has ended and that nobody has asked for its status does not.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	for _, p := range processes() {
		if p.pid == pid {
			return p.state != 'Z' && p.state != 'X'
		}
	}
	return false
}

// entry is a row of the system's table of processes.
type entry struct {
	pid, parent int
	state       byte
}

// processes are all processes of the system.
func processes() []entry {
	statuses, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	if len(statuses) == 0 {
		return processesByPS()
	}
	var all []entry
	for _, path := range statuses {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent ...", where the name may contain anything.
		fields := strings.Fields(string(status[bytes.LastIndexByte(status, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, err2 := strconv.Atoi(fields[1])
		if err := errors.Join(err1, err2); err == nil {
			all = append(all, entry{pid: pid, parent: parent, state: fields[0][0]})
		}
	}
	return all
}

// processesByPS is processes where there is no /proc, as on macOS.
func processesByPS() []entry {
	output, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil
	}
	var all []entry
	for line := range strings.Lines(string(output)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		pid, err1 := strconv.Atoi(fields[0])
		parent, err2 := strconv.Atoi(fields[1])
		if err := errors.Join(err1, err2); err == nil {
			all = append(all, entry{pid: pid, parent: parent, state: fields[2][0]})
		}
	}
	return all
}
