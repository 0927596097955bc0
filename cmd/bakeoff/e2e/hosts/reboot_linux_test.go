package hosts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/lab/store"
	"bakeoff/measure/workload/boot"
)

// rebootLab measures boots of a machine over SSH. The twin of the baseline reboots it, too.
const rebootLab = `schema: bakeoff/lab/v1
name: reboots
hosts: {box: {ssh: box, dir: /data/bakeoff}}
contenders:
  - {name: machine, driver: machine, host: box, memory: 256MiB, reboot: %v, reboot-command: %s, boot-timeout: %s}
baseline: machine
cells: [{name: boot, workload: boot, params: {answer: "http:%d/"}, primary: [boot-ready]}]
design: {blocks: %d, mirror: false}
`

// rebootHome is a home with a lab that reboots g.
func rebootHome(t *testing.T, h e2e.Home, g rebootGuest, allowed bool, command, limit string, blocks int) string {
	t.Helper()
	lab := filepath.Join(h.Dir, "reboots.yaml")
	if err := os.WriteFile(lab, fmt.Appendf(nil, rebootLab, allowed, command, limit, g.http, blocks), 0o600); err != nil {
		t.Fatal(err)
	}
	return lab
}

const rebootNow = `[reboot, -f]`

// A machine over SSH is rebooted for each trial, and each trial proves that it was. Without
// permission, nothing is rebooted. A machine that does not come back ends the trial, and a
// controller that was killed leaves nothing that clean does not find.
func rebootsOfAMachine(t *testing.T, g rebootGuest) {
	h := e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+g.config)
	first := g.boot(t)

	lab := rebootHome(t, h, g, false, rebootNow, "6m", 1)
	for _, command := range []string{"plan", "run"} {
		out, errs, code := h.Bakeoff(t, 3*time.Minute, command, lab)
		if code == 0 || !strings.Contains(out+errs, "reboot: true") {
			t.Errorf("%s without permission: exit code %d\n%s%s", command, code, out, errs)
		}
	}
	if now := g.boot(t); now != first {
		t.Fatalf("the machine was rebooted without permission: %s, %s", first, now)
	}
	blocks := 1
	if os.Getenv("BAKEOFF_TEST_LONG") != "" {
		blocks = 5
	}
	lab = rebootHome(t, h, g, true, rebootNow, "6m", blocks)
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "plan", lab)
	if says := fmt.Sprintf("reboots box (box) %d times", 2*blocks); code != 0 || !strings.Contains(out, says) {
		t.Errorf("plan: exit code %d, want %q\n%s%s", code, says, out, errs)
	}
	if now := g.boot(t); now != first {
		t.Fatalf("plan rebooted the machine: %s, %s", first, now)
	}
	out, errs, code = h.Bakeoff(t, 20*time.Minute, "run", lab, "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	checkReboots(t, h, r, first, 2*blocks)
	t.Run("killed", func(t *testing.T) {
		if os.Getenv("BAKEOFF_TEST_LONG") == "" {
			t.Skip("takes most of a minute, and TestKilledAndResumed kills a controller: set BAKEOFF_TEST_LONG=1")
		}
		killedInAReboot(t, h, g, lab)
	})

	// It goes down, and does not come back in time.
	lab = rebootHome(t, h, g, true, `[sh, -c, "sleep 1000"]`, "3s", 1)
	out, errs, code = h.Bakeoff(t, 5*time.Minute, "run", lab, "--json")
	if code == 0 || !strings.Contains(out+errs, "did not come back in 3s") {
		t.Errorf("a machine that does not reboot: exit code %d\n%s%s", code, out, errs)
	}
	h.LeavesNothing(t)
}

// checkReboots checks the results of a run with n reboots after the boot first.
func checkReboots(t *testing.T, h e2e.Home, r e2e.Ran, first string, n int) {
	t.Helper()
	folder := r.Folder
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(h.Dir, folder)
	}
	boots := []string{first}
	for _, l := range e2e.Journal(t, filepath.Join(folder, store.JournalFile)) {
		if l.Type != store.LineTrial {
			continue
		}
		if l.Status != store.OK {
			t.Fatalf("trial: %s: %s", l.Status, l.Reason)
		}
		for _, f := range l.Raw {
			if !strings.HasSuffix(f.Name, boot.Blob) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, "raw", f.Name))
			var m boot.Marks
			if err == nil {
				err = json.Unmarshal(text, &m)
			}
			if err != nil || m.Reboot == nil {
				t.Fatalf("%v: %s", err, text)
			}
			if before := boots[len(boots)-1]; m.Reboot.Before != before || slices.Contains(boots, m.Reboot.After) {
				t.Errorf("rebooted from %s to %s, and the boots were %v", m.Reboot.Before, m.Reboot.After, boots)
			}
			boots = append(boots, m.Reboot.After)
			for _, x := range m.Moments {
				t.Logf("%8.3f s ± %s: %s", float64(x.AtNS)/1e9, uncertainty(x.UncertaintyNS), x.Name)
			}
		}
	}
	if len(boots) != n+1 {
		t.Errorf("%d reboots, want %d", len(boots)-1, n)
	}
	for _, s := range r.Summaries {
		if s.Contender != "machine" {
			continue
		}
		switch s.Metric {
		case boot.Ready, boot.BootReady, boot.Kernel, boot.Userland, boot.Service, boot.Shutdown:
			if s.N != n/2 || s.Median == nil || *s.Median <= 0 {
				t.Errorf("%s: %d values, %d failures", s.Metric, s.N, s.Failures)
				continue
			}
			t.Logf("%s: %.3f s", s.Metric, *s.Median)
		case boot.Firmware: // SeaBIOS leaves no record
			if s.N != 0 {
				t.Errorf("%s: %d values", s.Metric, s.N)
			}
		}
	}
	h.Holds(t, folder)
	h.LeavesNothing(t)
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "boot", "show", folder, "--contender", "machine"); code != 0 ||
		!strings.Contains(out, "SSH answers") {
		t.Errorf("boot show: exit code %d\n%s%s", code, out, errs)
	}
}

func uncertainty(ns *int64) string {
	if ns == nil {
		return "unknown"
	}
	return time.Duration(*ns).String()
}

// killedInAReboot kills a controller while the machine is down. Its lease is on the disk of
// the machine, and clean finds it.
func killedInAReboot(t *testing.T, h e2e.Home, g rebootGuest, lab string) {
	t.Helper()
	before, restarts := g.boot(t), g.restarts(t)
	c := h.Command("run", lab)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if g.restarts(t) > restarts {
			break
		}
		if time.Now().After(end) {
			c.Process.Kill()
			c.Wait()
			t.Fatal("the machine was not rebooted")
		}
	}
	c.Process.Kill()
	c.Wait()
	g.wait(t, "box")
	if now := g.boot(t); now == before {
		t.Errorf("the machine is still in the boot %s", now)
	}
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "clean", "--dry-run")
	if !strings.Contains(out, "machine") {
		t.Errorf("clean --dry-run does not find the lease: exit code %d\n%s%s", code, out, errs)
	}
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "clean"); code != 0 {
		t.Errorf("clean: exit code %d\n%s%s", code, out, errs)
	}
	h.LeavesNothing(t)
}
