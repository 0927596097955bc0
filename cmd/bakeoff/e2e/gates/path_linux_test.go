package gates

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
)

// queueLab compares two environments behind queues of one rate.
const queueLab = `schema: bakeoff/lab/v1
name: queue
contenders: [{name: a, driver: host}, {name: b, driver: host}]
baseline: a
cells:
  - name: page
    workload: wrk
    params: {server: own, port: 8080, run: [python3, SERVER, RATE], connections: 8, time: 1s}
    primary: [throughput]
design: {looks: [6], alphas: [0.05], margin: 0.5, budget: 5m, mirror: false}
`

// queueServer puts a queue before its answers, of 64 KiB, each of which costs 10 ms of CPU time:
// a link of 20 Mbit/s carries 37 of them in a second, one CPU makes 100.
const queueServer = `import asyncio, hashlib, subprocess, sys, time
subprocess.run(["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", sys.argv[1],
    "burst", "16kb", "latency", "100ms"], check=True)
body = b"x" * 65536
head = b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n"
class Pages(asyncio.Protocol):
    def connection_made(self, transport): self.transport, self.heard = transport, b""
    def data_received(self, data):
        self.heard += data
        while b"\r\n\r\n" in self.heard:
            _, self.heard = self.heard.split(b"\r\n\r\n", 1)
            end = time.process_time() + 0.010
            while time.process_time() < end: hashlib.sha256(body).digest()
            self.transport.write(head + body)
async def main():
    await (await asyncio.get_running_loop().create_server(Pages, None, 8080)).serve_forever()
asyncio.run(main())
`

// Two environments behind queues of 20 Mbit/s tie, because the queues are alike: wrk gets no
// verdict. Behind ten times as much the server's CPU is the limit, and they have one.
func TestQueuesAreNoTie(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	e2e.NeedsRoot(t)
	for program, name := range map[string]string{"wrk": "wrk", "python3": "python3", "tc": "iproute2"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, name)
		}
	}
	for _, rate := range []string{"20mbit", "200mbit"} {
		t.Run(rate, func(t *testing.T) { queued(t, rate, rate == "20mbit") })
	}
}

func queued(t *testing.T, rate string, full bool) {
	h := e2e.New(t)
	server := filepath.Join(h.Dir, "server.py")
	lab := strings.NewReplacer("SERVER", server, "RATE", rate).Replace(queueLab)
	for file, text := range map[string]string{server: queueServer, filepath.Join(h.Dir, "bakeoff.yaml"): lab} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said, errs, code := h.Bakeoff(t, 5*time.Minute, "run", filepath.Join(h.Dir, "bakeoff.yaml"), "--json", "--seed", "3")
	if strings.Contains(errs, "tbf") && strings.Contains(errs, "exit status") {
		t.Skipf("needs a kernel with tbf: %s", errs)
	}
	var r e2e.Ran
	if err := json.Unmarshal([]byte(said), &r); code != 0 || err != nil || len(r.Comparisons) == 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, said, errs)
	}
	c := r.Comparisons[0]
	t.Logf("%s: %s, gates %+v", rate, c.Verdict, c.Gates)
	path := slices.ContainsFunc(c.Gates, func(g analysis.Gate) bool { return g.Name == "path" })
	busy := slices.ContainsFunc(c.Gates, func(g analysis.Gate) bool { return g.Name == "starved" || g.Name == "cpu-wait" })
	// A server that neighbors keep from its CPU fills no link, and makes fewer pages.
	least := map[bool]float64{true: 31, false: 75}[full]
	for _, s := range r.Summaries {
		if s.Metric == "throughput" && (s.Median == nil || *s.Median < least) {
			t.Skipf("other programs had the server's CPU: %+v", s)
		}
	}
	switch {
	case full && c.Verdict != analysis.Inconclusive:
		t.Errorf("two queues of %s: %s", rate, c.Verdict)
	case !full && path:
		t.Errorf("the path of %s is full: %+v", rate, c.Gates)
	case busy:
		t.Skip("other programs had the CPUs: " + fmt.Sprint(c.Gates))
	case full && !path:
		t.Errorf("two queues of %s are inconclusive for other reasons: %+v", rate, c.Gates)
	case !full && c.Verdict != analysis.Equivalent:
		t.Errorf("behind %s: %s, %+v", rate, c.Verdict, c.Gates)
	}
	if p := r.Protocols; len(p) != 3 || !slices.Equal(p[0].Used, []string{"HTTP/1.1"}) {
		t.Errorf("protocols: %+v", p)
	}
}
