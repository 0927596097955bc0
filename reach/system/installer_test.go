package system_test

import (
	"testing"

	"bakeoff/reach/system"
	systemall "bakeoff/reach/system/all"
	"bakeoff/reach/system/systemtest"
)

// runs is a host of a system.
func runs(kernel, release string) *systemtest.Machine {
	m := &systemtest.Machine{Says: map[string]systemtest.Answer{"uname -s": {Stdout: kernel + "\n"},
		"uname -v": {Stdout: "1\n"}}, Files: map[string]string{}}
	if release != "" {
		m.Files["/etc/os-release"] = release
	}
	return m
}

// What is missing on a host is installed in the words of its system.
func TestInstallerSpeaksAsTheHost(t *testing.T) {
	programs, packages := []string{"bwrap", "nginx", "bwrap"}, []string{"nginx-light", "bubblewrap"}
	for _, c := range []struct{ kernel, release, system, line string }{
		{"Linux", "ID=debian\n", "debian", "apt-get install --no-install-recommends bubblewrap nginx-light"},
		{"Linux", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "debian", "apt-get install " +
			"--no-install-recommends bubblewrap nginx-light"},
		{"Linux", "ID=alpine\n", "alpine", "apk add bubblewrap nginx"},
		{"FreeBSD", "", "freebsd", "pkg install -y bwrap nginx"},
		{"Linux", "ID=arch\n", "arch", "install on arch what Debian has in the packages bubblewrap, nginx-light"},
	} {
		i := system.InstallerOf(t.Context(), systemall.Systems(), runs(c.kernel, c.release))
		if line := i.Line(programs, packages); i.System != c.system || line != c.line {
			t.Errorf("%s %q is %q: %q, want %q", c.kernel, c.release, i.System, line, c.line)
		}
		if line := i.Line(nil, nil); line != "" {
			t.Errorf("on %s nothing is installed by %q", c.system, line)
		}
	}
	alpine := system.InstallerOf(t.Context(), systemall.Systems(), runs("Linux", "ID=alpine\n"))
	if line := alpine.Line([]string{"systemd-nspawn", "crun"}, nil); line != "apk add crun; alpine has no "+
		"package of systemd-nspawn" {
		t.Errorf("what nobody packages: %q", line)
	}
}
