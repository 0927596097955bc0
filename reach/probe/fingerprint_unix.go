//go:build unix

package probe

import (
	"strconv"

	"golang.org/x/sys/unix"
)

func (c *collector) uname() {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		c.set("kernel", "", "uname: "+err.Error())
		return
	}
	c.set("kernel", unix.ByteSliceToString(u.Sysname[:])+" "+unix.ByteSliceToString(u.Release[:]), "uname is empty")
	c.set("kernel.build", unix.ByteSliceToString(u.Version[:]), "uname is empty")
}

// limits records the resource limits as soft:hard. Of open files it records the
// hard limit only, because the Go runtime raises the soft one to it.
func (c *collector) limits() {
	for _, l := range []struct {
		name string
		what int
	}{
		{"cpu-seconds", unix.RLIMIT_CPU}, {"data", unix.RLIMIT_DATA}, {"file-size", unix.RLIMIT_FSIZE},
		{"open-files", unix.RLIMIT_NOFILE}, {"stack", unix.RLIMIT_STACK},
	} {
		var r unix.Rlimit
		if err := unix.Getrlimit(l.what, &r); err != nil {
			c.set("limit."+l.name, "", err.Error())
			continue
		}
		text := limit(uint64(r.Cur)) + ":" + limit(uint64(r.Max))
		if l.what == unix.RLIMIT_NOFILE {
			text = limit(uint64(r.Max))
		}
		c.set("limit."+l.name, text, "")
	}
}

// limit formats a limit. Systems have several values for "none", all of them
// larger than any real limit.
func limit(n uint64) string {
	if n >= 1<<62 {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}
