package agent

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
)

// account is a user as a process has it.
type account struct {
	uid, gid uint32
	groups   []uint32
	home     string
}

// become makes cmd run as a user, USER[:GROUP]. The variable HOME is that of the user,
// unless a variable names another folder than root's. If own, the working directory
// becomes the user's.
func become(cmd *exec.Cmd, user string, own bool) error {
	passwd, err := readSmall("/etc/passwd")
	if err != nil {
		return err
	}
	group, err := readSmall("/etc/group")
	if err != nil {
		return err
	}
	a, err := accountOf(user, passwd, group)
	if err != nil {
		return fault.Wrap(fault.Subject, "user "+strconv.Quote(user), err)
	}
	if err := a.become(cmd); err != nil {
		return err
	}
	if home := os.Getenv("HOME"); home == "" || home == "/root" || home == "/" {
		cmd.Env = append(os.Environ(), "HOME="+a.home)
	}
	if own && cmd.Dir != "" {
		return fault.Wrap(fault.Lab, "", os.Chown(cmd.Dir, int(a.uid), int(a.gid)))
	}
	return nil
}

// maxAccounts bounds /etc/passwd and /etc/group, in bytes.
const maxAccounts = 4 << 20

// readSmall reads a regular file; nil if there is none. The files of an image may be
// pipes, which would never end.
func readSmall(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Subject, "", err)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fault.Wrap(fault.Subject, "", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAccounts))
	return b, fault.Wrap(fault.Subject, "", err)
}

// accountOf finds USER[:GROUP] in the texts of /etc/passwd and /etc/group, as OCI
// runtimes do: a number needs no entry, a user without a group has the group of its
// entry or else 0, and a named group replaces the further groups of the user.
//
// Source: the field User of the OCI image configuration; passwd(5), group(5).
func accountOf(text string, passwd, group []byte) (account, error) {
	name, groupName, given := strings.Cut(text, ":")
	a := account{home: "/"}
	uid, number := id(name)
	found := false
	for f := range entries(passwd, 7) {
		n, ok := id(f[2])
		g, gok := id(f[3])
		if !ok || !gok || f[0] != name && !(number && n == uid) {
			continue
		}
		name, a.uid, a.gid, found = f[0], n, g, true
		if strings.HasPrefix(f[5], "/") {
			a.home = f[5]
		}
		break
	}
	switch {
	case !found && number:
		a.uid = uid
	case !found:
		return a, errors.New("/etc/passwd has no such user; write a number")
	}
	if given {
		g, err := groupOf(groupName, group)
		a.gid = g
		return a, err
	}
	for f := range entries(group, 4) {
		g, ok := id(f[2])
		if ok && found && g != a.gid && slices.Contains(strings.Split(f[3], ","), name) && len(a.groups) < maxGroups {
			a.groups = append(a.groups, g)
		}
	}
	return a, nil
}

// maxGroups is how many groups a process of Linux can have.
const maxGroups = 65536

// groupOf finds a group by name or number.
func groupOf(name string, group []byte) (uint32, error) {
	for f := range entries(group, 4) {
		if g, ok := id(f[2]); ok && f[0] == name {
			return g, nil
		}
	}
	if g, ok := id(name); ok {
		return g, nil
	}
	return 0, errors.New("/etc/group has no group " + strconv.Quote(name) + "; write a number")
}

// entries are the lines of a database with so many fields between colons.
func entries(text []byte, fields int) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(string(text)) {
			f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
			if len(f) == fields && f[0] != "" && !yield(f) {
				return
			}
		}
	}
}

// id reads the number of a user or group. The largest one means "no change" to the
// kernel.
func id(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && n < 1<<32-1
}
