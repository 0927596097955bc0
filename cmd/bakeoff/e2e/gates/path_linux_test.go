package gates

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
CELLS
design: {looks: [BLOCKS], alphas: [0.05], margin: 0.5, budget: 5m, mirror: false}
`

// queueCell is a cell of it: a generator, with its parameters, and the server.
const queueCell = "  - {name: NAME, workload: NAME, params: {server: own, port: 8080, " +
	"run: [python3, SERVER, RATE, WORK], connections: 8, time: 1sMORE}, primary: [throughput]}\n"

// queuedBy is queueLab with a cell for each of these generators.
func queuedBy(generators ...string) string {
	var cells strings.Builder
	for _, g := range generators {
		name, more, _ := strings.Cut(g, " ")
		cells.WriteString(strings.NewReplacer("NAME", name, "MORE", more).Replace(queueCell))
	}
	return strings.Replace(queueLab, "CELLS\n", cells.String(), 1)
}

// queueServer puts a queue before its answers, of 64 KiB, each of which costs some CPU time: a
// link of 20 Mbit/s carries 37 of them in a second. Of 10 ms each, one CPU makes 100; 1 ms each
// leaves room for neighbors.
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
            end = time.process_time() + float(sys.argv[2])
            while time.process_time() < end: hashlib.sha256(body).digest()
            self.transport.write(head + body)
async def main():
    await (await asyncio.get_running_loop().create_server(Pages, None, 8080)).serve_forever()
asyncio.run(main())
`

// decides is how many blocks a verdict needs.
const decides = 6

// Two environments behind queues of 20 Mbit/s tie, because the queues are alike: wrk gets no
// verdict, although it has the blocks for one. The path is full for siege, hey and the native
// generator, too, this one over IPv6, which two blocks show. Behind ten times as much the
// server's CPU is the limit, and wrk has a verdict.
func TestQueuesAreNoTie(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	e2e.NeedsRoot(t)
	for program, name := range map[string]string{"wrk": "wrk", "siege": "siege", "hey": "hey", "python3": "python3",
		"tc": "iproute2"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, name)
		}
	}
	t.Run("20mbit", func(t *testing.T) { queued(t, "20mbit", true, decides, "wrk") })
	t.Run("20mbit others", func(t *testing.T) { queued(t, "20mbit", true, 2, "siege", "hey", "http , family: ipv6") })
	t.Run("200mbit", func(t *testing.T) { queued(t, "200mbit", false, decides, "wrk") })
}

func queued(t *testing.T, rate string, full bool, blocks int, generators ...string) {
	h := e2e.New(t)
	server := filepath.Join(h.Dir, "server.py")
	work := map[bool]string{true: "0.001", false: "0.010"}[full]
	lab := strings.NewReplacer("SERVER", server, "RATE", rate, "WORK", work, "BLOCKS", strconv.Itoa(blocks)).
		Replace(queuedBy(generators...))
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
	if err := json.Unmarshal([]byte(said), &r); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, said, errs)
	}
	primary := slices.DeleteFunc(r.Comparisons, func(c analysis.Comparison) bool { return c.Metric != "throughput" })
	if len(primary) != len(generators) {
		t.Fatalf("%d comparisons of the throughput:\n%s", len(primary), said)
	}
	if p := r.Protocols; len(p) != 3*len(generators) || !slices.Equal(p[0].Used, []string{"HTTP/1.1"}) {
		t.Errorf("protocols: %+v", p)
	}
	for _, c := range primary {
		t.Run(c.Cell, func(t *testing.T) { isNoTie(t, r, c, full) })
	}
}

// isNoTie checks the comparison of a cell: full says that the queues are.
func isNoTie(t *testing.T, r e2e.Ran, c analysis.Comparison, full bool) {
	t.Logf("%s, gates %+v", c.Verdict, c.Gates)
	path := slices.ContainsFunc(c.Gates, func(g analysis.Gate) bool { return g.Name == "path" })
	busy := slices.ContainsFunc(c.Gates, func(g analysis.Gate) bool { return g.Name == "starved" || g.Name == "cpu-wait" })
	// A server that neighbors keep from its CPU makes fewer pages, and too few of them fill no
	// link: the gate begins at 75 % of its bytes, 28 pages per second. The start of the generator
	// counts, too.
	least := map[bool]float64{true: 31, false: 75}[full]
	starved := slices.ContainsFunc(r.Summaries, func(s analysis.Summary) bool {
		return s.Cell == c.Cell && s.Metric == "throughput" && (s.Median == nil || *s.Median < least)
	})
	switch {
	case full && path && c.Verdict == analysis.Inconclusive: // whatever else is wrong
	case starved:
		t.Skipf("other programs had the server's CPU: %+v", r.Summaries)
	case full && c.Verdict != analysis.Inconclusive:
		t.Errorf("two full queues: %s", c.Verdict)
	case !full && path:
		t.Errorf("the path is full: %+v", c.Gates)
	case busy:
		t.Skip("other programs had the CPUs: " + fmt.Sprint(c.Gates))
	case full:
		t.Errorf("two full queues are inconclusive for other reasons: %+v", c.Gates)
	case c.Verdict != analysis.Equivalent:
		t.Errorf("behind queues with room: %s, %+v", c.Verdict, c.Gates)
	}
}
