package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// unprivileged is who a server runs as: PostgreSQL refuses to run as root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(postgres.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(postgres.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// binaries finds the directory of PostgreSQL's programs and, as root on Debian and its like, installs them if there are
// none.
func binaries(ctx context.Context) (string, error) {
	if bin, ok := findBinaries(); ok {
		return bin, nil
	}
	if _, err := os.Stat("/etc/debian_version"); err != nil || os.Getuid() != 0 {
		return "", errors.New("PostgreSQL is not installed")
	}
	// The configuration keeps Debian from making and starting a server of its own.
	install := exec.CommandContext(ctx, "sh", "-c", `
		export DEBIAN_FRONTEND=noninteractive
		apt="apt-get -qq -o DPkg::Lock::Timeout=300"
		$apt update
		$apt install -y --no-install-recommends postgresql-common
		sed -i -E 's/#?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
		$apt install -y --no-install-recommends postgresql`)
	output, err := install.CombinedOutput()
	if bin, ok := findBinaries(); ok {
		return bin, nil
	}
	return "", fmt.Errorf("PostgreSQL is not installed and cannot be: %w\n%s", err, tail(output))
}

// findBinaries looks where packages put PostgreSQL's programs, the newest version first.
func findBinaries() (string, bool) {
	var candidates []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			candidates = append(candidates, filepath.Dir(path))
		}
	}
	if output, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(output)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",            // Debian, Ubuntu
		"/usr/pgsql-*/bin",                     // Red Hat
		"/opt/homebrew/opt/postgresql@*/bin",   // Homebrew
		"/usr/local/opt/postgresql@*/bin",      // Homebrew on Intel
		"/opt/local/lib/postgresql*/bin",       // MacPorts
		"/Applications/Postgres.app/*/*/*/bin", // Postgres.app
	} {
		found, _ := filepath.Glob(pattern) // the pattern is good
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
		candidates = append(candidates, found...)
	}
	for _, bin := range candidates {
		if executable(filepath.Join(bin, "postgres")) && executable(filepath.Join(bin, "initdb")) {
			return bin, true
		}
	}
	return "", false
}

// version is the first number in a path, 0 without one.
func version(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	number, _ := strconv.Atoi(digits[0]) // only digits
	return number
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}
