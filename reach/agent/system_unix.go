//go:build unix

package agent

import (
	"errors"
	"os/exec"
	"syscall"
)

// become makes cmd run as an account.
func (a account) become(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
	return nil
}

// noSpace reports whether err says that a volume is full.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
