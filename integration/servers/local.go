package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// directoryPrefix and the number of the owning process begin the name of a local server's directory.
const directoryPrefix = "hare-postgres-"

// process is a server of local binaries. Its directory holds the data and the log.
type process struct {
	spec
	child
	bin       string
	directory string
}

func newProcess(ctx context.Context, spec spec) (*process, error) {
	bin, err := binaries(ctx)
	if err != nil {
		return nil, err
	}
	credential, err := unprivileged()
	if err != nil {
		return nil, err
	}
	removeOrphanDirectories()
	within := os.TempDir()
	if spec.volatile && memoryToLend() {
		within = memoryDirectory
	}
	directory, err := os.MkdirTemp(within, fmt.Sprintf("%s%d-%s-", directoryPrefix, os.Getpid(), spec.name))
	if err != nil {
		return nil, err
	}
	p := &process{spec: spec, bin: bin, directory: directory, child: newChild(filepath.Join(directory, "log"), credential)}
	initialize := p.initialize
	if spec.primary != nil {
		initialize = p.copyPrimary
	}
	if err := initialize(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	return p, nil
}

// memoryDirectory is a file system in memory on Linux.
const memoryDirectory = "/dev/shm"

// memoryToLend says whether it has 4 GB to spare: a container's own often has 64 MB.
func memoryToLend() bool {
	var free syscall.Statfs_t
	return syscall.Statfs(memoryDirectory, &free) == nil && free.Bavail*uint64(free.Bsize) > 4<<30
}

func (p *process) data() string { return filepath.Join(p.directory, "data") }

// initialize makes the data directory.
func (p *process) initialize(ctx context.Context) error {
	password := filepath.Join(p.directory, "password")
	if err := os.WriteFile(password, []byte(p.password), 0o600); err != nil {
		return err
	}
	if p.credential != nil {
		for _, path := range []string{p.directory, password} {
			if err := os.Chown(path, int(p.credential.Uid), int(p.credential.Gid)); err != nil {
				return err
			}
		}
	}
	locale := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		locale = "en_US.UTF-8"
	}
	err := p.run(ctx, nil, "initdb", "--pgdata="+p.data(), "--username="+Superuser,
		"--pwfile="+password, "--auth=scram-sha-256", "--encoding=UTF8", "--locale="+locale, "--no-sync")
	if err != nil {
		return err
	}
	return os.Remove(password)
}

// copyPrimary makes the data directory of a standby.
func (p *process) copyPrimary(ctx context.Context) error {
	if p.credential != nil {
		if err := os.Chown(p.directory, int(p.credential.Uid), int(p.credential.Gid)); err != nil {
			return err
		}
	}
	err := p.run(ctx, []string{"PGPASSWORD=" + p.password}, "pg_basebackup", "--pgdata="+p.data(), "--host="+p.primary.host,
		"--port="+strconv.Itoa(p.primary.port), "--username="+Superuser, "--checkpoint=fast", "--no-sync")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.data(), "standby.signal"), nil, 0o644) // any mode that the server may read
}

// run runs one of PostgreSQL's programs to its end.
func (p *process) run(ctx context.Context, environment []string, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, program), args...)
	cmd.Dir = p.directory
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.credential}
	if output, err := cmd.CombinedOutput(); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, tail(output))
	}
	return nil
}

func (p *process) address() (string, int, error) { return "127.0.0.1", p.port, nil }

func (p *process) start(context.Context) error {
	args := []string{"-D", p.data(), "-p", strconv.Itoa(p.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
	for _, setting := range p.settings {
		args = append(args, "-c", setting)
	}
	return p.launch(p.directory, filepath.Join(p.bin, "postgres"), args...)
}

func (p *process) stop(ctx context.Context) error {
	return p.end(ctx, syscall.SIGINT)
}

func (p *process) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if p.running() {
		if err := p.kill(ctx); err != nil {
			return err
		}
	}
	return removeDirectory(p.directory)
}

// removeDirectory removes the directory of a server that has ended.
func removeDirectory(directory string) error {
	// A killed server leaves a segment of System V shared memory, which its next start would have removed.
	if lock := lockFile(directory); len(lock) > 6 {
		if key := strings.Fields(lock[6]); len(key) == 2 {
			_ = exec.Command("ipcrm", "-m", key[1]).Run() // only a few bytes, and gone after a reboot
		}
	}
	return os.RemoveAll(directory)
}

// lockFile are the lines of the file by which a running server holds its data directory: the first is its process, the
// seventh its shared memory.
func lockFile(directory string) []string {
	content, err := os.ReadFile(filepath.Join(directory, "data", "postmaster.pid"))
	if err != nil {
		return nil
	}
	return strings.Split(string(content), "\n")
}

// removeOrphanDirectories removes the directories of servers that have ended and whose owners are no more.
func removeOrphanDirectories() {
	directories, _ := filepath.Glob(filepath.Join(os.TempDir(), directoryPrefix+"*")) // the patterns are good
	inMemory, _ := filepath.Glob(filepath.Join(memoryDirectory, directoryPrefix+"*"))
	for _, directory := range append(directories, inMemory...) {
		name := strings.TrimPrefix(filepath.Base(directory), directoryPrefix)
		owner, _, _ := strings.Cut(name, "-")
		if pid, err := strconv.Atoi(owner); err != nil || alive(pid) {
			continue
		}
		if lock := lockFile(directory); len(lock) > 0 {
			if pid, err := strconv.Atoi(lock[0]); err != nil || alive(pid) {
				continue
			}
		}
		_ = removeDirectory(directory) // another user's, or being removed at this moment
	}
}
