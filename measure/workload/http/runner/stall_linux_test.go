package runner

import (
	"os/exec"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/conn"
)

// With BBR the kernel paces what nginx sends, and tcp_nopush makes the end of
// some responses wait for a timer: about connections/rate.
func TestAStallIsGated(t *testing.T) {
	for nopush, want := range map[string]string{"true": "connections/rate = 25 ms", "false": ""} {
		t.Run("tcp-nopush "+nopush, func(t *testing.T) {
			target := paced(t)
			p := cellOf(param.Values{"time": "500ms", "rate": "2000/s", "tcp-nopush": nopush})
			if err := New().Prepare(t.Context(), target, p); err != nil {
				t.Fatal(err)
			}
			for attempt := 1; ; attempt++ {
				trial := trialOf(t, target, p)
				h, err := http.DecodeHistogram(trial.Work.Histogram)
				if err != nil {
					t.Fatal(err)
				}
				why := failing(trial)["stall"]
				t.Logf("p50 %.2f ms, p90 %.2f, p99 %.2f, maximum %.2f; %s", 1e3*http.Seconds(h, 50), 1e3*http.Seconds(h, 90),
					1e3*http.Seconds(h, 99), 1e3*http.Seconds(h, 100), why)
				if (why == "") == (want == "") && strings.Contains(why, want) {
					return
				}
				if attempt == 5 { // others may have had the generator's CPU before
					t.Fatalf("the gate says %q, want %q", why, want)
				}
			}
		})
	}
}

// paced is a server in a network of its own whose TCP uses BBR. It goes before
// others, so that TCP is seen and not a neighbor.
func paced(t *testing.T) execution.Target {
	t.Helper()
	target := across(t, "")
	inside := target.Subject.(*workloadtest.Instance)
	sysctl := func(args ...string) (string, error) {
		out, err := exec.Command("ip", append([]string{"netns", "exec", inside.Conn.Netns, "sysctl"},
			args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	const key = "net.ipv4.tcp_congestion_control"
	_ = exec.Command("modprobe", "-q", "tcp_bbr").Run() // may be part of the kernel
	if now, _ := sysctl("-n", key); now != "bbr" {
		if out, err := sysctl("-w", key+"=bbr"); err != nil {
			t.Skipf("needs BBR congestion control (modprobe tcp_bbr): %s", out)
		}
	}
	target.Subject = set{inside, conn.Prefix(inside.Conn, "chrt", "-f", "2")}
	return target
}
