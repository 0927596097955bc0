package debian

import (
	"slices"
	"testing"

	"bakeoff/reach/conn"
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
	query := found.Doc().Manager.Query
	for name, want := range map[string]bool{"dpkg": true, "no-such-package-anywhere": false} {
		exit, err := local.Conn{}.Exec(t.Context(), conn.Command(append(slices.Clone(query), name)...))
		if err != nil || exit.OK() != want {
			t.Errorf("%s is installed: %v (%v), and %v is right", name, exit.OK(), err, want)
		}
	}
}
