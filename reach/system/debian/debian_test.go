package debian

import (
	"errors"
	"slices"
	"testing"

	"bakeoff/reach/conn/local"
	"bakeoff/reach/system"
	"bakeoff/reach/system/systemtest"
)

func TestSuite(t *testing.T) {
	systemtest.Run(t, System{}, map[string]systemtest.Answers{
		"starting": {
			Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"systemctl is-system-running": {Code: 1,
				Stdout: "starting\n"}}}, Ready: false},
		"running": {
			Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"systemctl is-system-running": {Code: 0,
				Stdout: "running\n"}}}, Ready: true},
		"degraded": {
			Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"systemctl is-system-running": {Code: 1,
				Stdout: "degraded\n"}}}, Ready: true},
		"no systemd": {Machine: systemtest.Machine{}, Ready: true},
		"systemd is not the first process": {
			Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"systemctl is-system-running": {Code: 1,
				Stdout: "offline\n"}}}, Ready: true},
		"no bus": {Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"systemctl is-system-running": {Code: 1,
			Stdout: ""}}}, Ready: true},
	})
}

// On this machine, where it is a Debian or like one, the answers are real: the
// question has an answer, and what is installed is known to be.
func TestHere(t *testing.T) {
	id, err := system.Identify(t.Context(), local.Conn{})
	if err != nil {
		t.Fatal(err)
	}
	found, ok := system.Of([]system.System{System{}}, id)
	if !ok {
		t.Skipf("this machine says that it is %q %q, and no Debian", id.Kernel, id.Release["ID"])
	}
	if _, err := found.Ready(t.Context(), local.Conn{}); err != nil {
		t.Error(err)
	}
	lacks, err := found.Doc().Lacks(t.Context(), local.Conn{}, []string{"dpkg", "no-such-package-anywhere", "base-files"})
	if err != nil || !slices.Equal(lacks, []string{"no-such-package-anywhere"}) {
		t.Errorf("lacks %q (%v)", lacks, err)
	}
}

// A package that was removed, and whose settings were kept, is not installed.
func TestRemovedPackages(t *testing.T) {
	query := "dpkg-query -W -f=${db:Status-Status} "
	m := systemtest.Machine{Says: map[string]systemtest.Answer{query + "kept": {Stdout: "config-files"},
		query + "here": {Stdout: "installed"}, query + "both": {Stdout: "installedinstalled"}, query + "never": {Code: 1}}}
	lacks, err := System{}.Doc().Lacks(t.Context(), &m, []string{"kept", "here", "both", "never"})
	if err != nil || !slices.Equal(lacks, []string{"kept", "never"}) {
		t.Errorf("lacks %q (%v)", lacks, err)
	}
	m.Broken = errors.New("the connection is broken")
	if _, err := (System{}).Doc().Lacks(t.Context(), &m, []string{"here"}); err == nil {
		t.Error("a broken connection lacks nothing")
	}
}
