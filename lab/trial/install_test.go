package trial

import (
	"testing"

	"bakeoff/provision/driver"
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
		i := InstallerOf(t.Context(), runs(c.kernel, c.release))
		if line := i.Line(programs, packages); i.System != c.system || line != c.line {
			t.Errorf("%s %q is %q: %q, want %q", c.kernel, c.release, i.System, line, c.line)
		}
		if line := i.Line(nil, nil); line != "" {
			t.Errorf("on %s nothing is installed by %q", c.system, line)
		}
	}
	alpine := InstallerOf(t.Context(), runs("Linux", "ID=alpine\n"))
	if line := alpine.Line([]string{"systemd-nspawn", "crun"}, nil); line != "apk add crun; alpine has no "+
		"package of systemd-nspawn" {
		t.Errorf("what nobody packages: %q", line)
	}
	a := driver.Availability{Reason: "not installed: crun", Programs: []string{"crun"}, Packages: []string{"crun"},
		Fix: "apt-get install crun"}
	if fit := alpine.Fit(a); fit.Fix != "apk add crun" || fit.Reason != a.Reason {
		t.Errorf("%+v", fit)
	}
	if fit := (Installer{}).Fit(a); fit.Fix != a.Fix {
		t.Errorf("of a host that says nothing: %+v", fit)
	}
	kernel := driver.Availability{Reason: "the kernel has no overlay file system", Fix: "modprobe overlay"}
	if fit := alpine.Fit(kernel); fit.Fix != kernel.Fix {
		t.Errorf("what no package brings: %+v", fit)
	}
}
