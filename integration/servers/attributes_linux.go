package servers

import "syscall"

// serverAttributes keep a server out of the terminal's reach, whose Ctrl-C is not meant for it, and shut it down at once
// when the process that started it dies.
func serverAttributes(credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential, Setsid: true, Pdeathsig: syscall.SIGQUIT}
}
