//go:build !linux

package servers

import "syscall"

// serverAttributes keep a server out of the terminal's reach, whose Ctrl-C is not meant for it.
func serverAttributes(credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential, Setsid: true}
}
