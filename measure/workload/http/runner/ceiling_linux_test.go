package runner

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/server"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"

	"golang.org/x/sys/unix"
)

// The load generator at its ceiling. A server that is cheaper than the
// generator is needed for it, and nginx is not: so a stand-in is called nginx
// here, which has its answer ready, one byte a chunk, that costs far more to
// read than to send. Everything else is what a run has.

// spends tells the stand-in how many times to hash each answer before it sends
// it: what one server costs more than another.
const spends = "HTTP_STAND_IN_SPENDS"

// plain tells the stand-in to send answers with a length, without chunks.
const plain = "HTTP_STAND_IN_PLAIN"

func init() { programs["nginx"] = standIn }

// standIn is a server with nginx's arguments. It reads its address and its
// page from the configuration and goes into the background.
func standIn(args []string) int {
	if slices.Contains(args, "-V") {
		fmt.Fprintln(os.Stderr, "nginx version: none, a server of these tests")
		return 0
	}
	at := slices.Index(args, "-c")
	if at < 0 || at+1 >= len(args) {
		return 1
	}
	text, err := os.ReadFile(args[at+1])
	if err != nil {
		return 1
	}
	find := func(key string) string {
		m := regexp.MustCompile(`(?m)^ *` + key + ` ([^ ;]+)`).FindSubmatch(text)
		if m == nil {
			return ""
		}
		return string(m[1])
	}
	const child = "HTTP_STAND_IN_CHILD"
	if os.Getenv(child) == "" {
		c := exec.Command("/proc/self/exe", args...)
		c.Args[0] = os.Args[0]
		c.Env = append(os.Environ(), child+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if c.Start() != nil {
			return 1
		}
		return 0
	}
	// A session of its own begins with the rank of all others: see onCPU.
	if nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && nice == 40 { // 20 minus the niceness
		_ = os.WriteFile("/proc/self/autogroup", []byte("-20"), 0) // not every kernel groups sessions
	}
	runtime.GOMAXPROCS(1)
	page, err := os.ReadFile(find("root") + server.PagePath)
	if err != nil {
		return 1
	}
	l, err := net.Listen("tcp", find("listen"))
	if err != nil {
		return 1
	}
	if os.WriteFile(find("pid"), []byte(strconv.Itoa(os.Getpid())), 0o644) != nil {
		return 1
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go serveChunks(l, page)
	select {
	case <-ended:
	case <-time.After(10 * time.Minute): // whatever became of the test
	}
	os.Remove(find("pid"))
	return 0
}

// serveChunks answers every request at l with page, a chunk for each byte.
func serveChunks(l net.Listener, page []byte) {
	rounds, _ := strconv.Atoi(os.Getenv(spends))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, c := range page {
		fmt.Fprintf(&b, "1\r\n%c\r\n", c)
	}
	b.WriteString("0\r\n\r\n")
	if os.Getenv(plain) != "" {
		b.Reset()
		fmt.Fprintf(&b, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go answerRequests(spender{c, rounds}, b.Bytes())
	}
}

// answerRequests answers every request on c, which has no body, with response.
func answerRequests(c net.Conn, response []byte) {
	defer c.Close()
	for lines := bufio.NewReader(c); ; {
		line, err := lines.ReadString('\n')
		if err == nil && line == "\r\n" {
			_, err = c.Write(response)
		}
		if err != nil {
			return
		}
	}
}

type spender struct {
	net.Conn
	rounds int
}

func (s spender) Write(b []byte) (int, error) {
	for range s.rounds {
		sha256.Sum256(b)
	}
	return s.Conn.Write(b)
}

// onCPU is a way to a machine's CPU on which others' work has to wait: it is a
// session of its own, since where the kernel groups sessions niceness counts
// inside of one only. Who may not ask for so much runs as everybody does.
func onCPU(cpu int, env ...string) conn.Conn {
	argv := append([]string{"env"}, env...)
	return conn.Prefix(local.Conn{CPUs: []int{cpu}}, append(argv, "setsid", "-w", "sh", "-c",
		`{ echo -20 >/proc/self/autogroup; } 2>/dev/null; exec nice -n -20 "$@"`, "sh")...)
}

// set is an environment in which the stand-in is called nginx.
type set struct {
	driver.Instance
	way conn.Conn
}

func (s set) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) { return s.way.Exec(ctx, cmd) }

// twoCPUs returns two that this process may use.
func twoCPUs(t *testing.T) (server, generator int) {
	t.Helper()
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil || may.Count() < 2 {
		t.Skip("needs two CPUs: one for the server and one for its load")
	}
	var all []int
	for i := 0; len(all) < 2; i++ {
		if may.IsSet(i) {
			all = append(all, i)
		}
	}
	return all[0], all[1]
}

// side is a contender of a comparison in real trials.
type side struct {
	name   string
	target execution.Target
}

func sidesOf(t *testing.T, rounds ...int) []side {
	t.Helper()
	server, generator := twoCPUs(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, bin+"/nginx"); err != nil {
		t.Fatal(err)
	}
	var out []side
	addr := workloadtest.Loopback()
	for _, n := range rounds {
		target := bare(t)
		target.Subject = set{target.Subject, onCPU(server, "PATH="+bin+":"+os.Getenv("PATH"), spends+"="+strconv.Itoa(n))}
		target.Peer, target.Addr = onCPU(generator), addr
		out = append(out, side{fmt.Sprintf("spends-%d", n), target})
		b := addr.As4()
		b[1] ^= 0x40 // another address, of which no other test has one either
		addr = netip.AddrFrom4(b)
	}
	return out
}

// serverTime is the CPU time of the one server below a scratch directory, in
// seconds.
func serverTime(t *testing.T, scratch string) float64 {
	t.Helper()
	pids, _ := filepath.Glob(scratch + "/http-*/nginx.pid")
	if len(pids) != 1 {
		t.Fatalf("servers: %q", pids)
	}
	pid, err := os.ReadFile(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	threads, _ := filepath.Glob("/proc/" + string(pid) + "/task/*/schedstat")
	sum := 0.0
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		ns, _ := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		sum += ns / 1e9
	}
	if sum == 0 {
		t.Skip("needs a kernel with schedstats")
	}
	return sum
}

// observed is one trial: what the analysis is given of it (values and failed
// gates), what the generator printed, and the share of its CPU that the server
// had.
type observed struct {
	analysis.Observation
	work  *wire.Result
	share float64
	// nothing: the server had too little of its CPU to answer once.
	nothing bool
}

// spoiled tells that others took the generator's CPU or the server's, so that the
// trial says nothing about either. These servers do the same work all the time: a
// speed that changes within a trial is that of the machine.
func (o observed) spoiled() bool {
	return o.nothing || o.Gates["starved"] != "" || o.Gates["trend"] != "" ||
		o.work.Generator.Utilisation < .95 && http.Stated(*o.work, "generator-starved") > .03
}

// observe runs one trial.
func (s side) observe(t *testing.T, p param.Values) observed {
	t.Helper()
	if err := New().Reset(t.Context(), s.target, p); err != nil {
		t.Fatal(err)
	}
	scratch := s.target.Subject.Info().Scratch
	before, after := probe.ReadHost(nil), facts.Counters{}
	cpu, from := serverTime(t, scratch), time.Now()
	raw, err := New().Run(t.Context(), s.target, p)
	if err != nil {
		t.Fatal(err)
	}
	used, elapsed := serverTime(t, scratch)-cpu, time.Since(from)
	after = probe.ReadHost(nil)
	// The host's account of its CPUs has the generator in it, and others.
	before.CPU, after.CPU = &facts.CPU{}, &facts.CPU{User: used, Idle: max(0, elapsed.Seconds()-used)}
	none, ns := int64(0), int64(used*1e9)
	before.TaskNS, after.TaskNS = &none, &ns
	before.CPUSource, after.CPUSource = facts.SourceSchedstat, facts.SourceSchedstat
	if raw[workload.Host], err = json.Marshal(wire.Span{Before: before, After: after}); err != nil {
		t.Fatal(err)
	}
	trial := evidence.TrialOf(New(), plan.Cell{},
		store.Line{Trial: &store.Trial{Start: from, End: from.Add(elapsed), Before: &before, After: &after}}, raw)
	o := observed{work: trial.Work, share: used / elapsed.Seconds()}
	o.Observation = analysis.Observation{Contender: s.name, Cell: "web", Gates: failing(trial)}
	o.Values, err = New().Parse(raw, p)
	// Every connection has a request waiting, so a server that has its CPU uses
	// all of it.
	o.nothing = err != nil && strings.Contains(err.Error(), "the server answered nothing") && o.share < .5
	if err != nil && !o.nothing {
		t.Fatal(err)
	}
	return o
}

// compared runs blocks of real trials, in an order that a run could have
// drawn, and returns the comparison of the second side with the first by
// metric, and the least share of its CPU that the server had in a trial. Trials
// in which others took the CPU of the generator, or so much of the server's that
// it could not answer once, are repeated; where they take it all the time, nothing
// can be told here.
func compared(t *testing.T, sides []side, p param.Values) (map[string]analysis.Comparison, float64) {
	t.Helper()
	for _, s := range sides {
		if err := New().Prepare(t.Context(), s.target, p); err != nil {
			t.Fatal(err)
		}
	}
	const blocks = 8
	spoiled, least := 0, 1.0
	d := analysis.Data{Baseline: sides[0].name, Margin: 0.02, Looks: []int{blocks}, Alphas: []float64{.05}, Trials: 2,
		Scope: analysis.ScopeMachine}
	for _, s := range sides {
		d.Contenders = append(d.Contenders, analysis.Contender{Name: s.name})
	}
	cell := analysis.Cell{Name: "web", Workload: "http"}
	for _, m := range New().Doc().Metrics {
		m.Primary = m.Name == "throughput" || m.CPUTime
		cell.Metrics = append(cell.Metrics, m)
	}
	d.Cells = []analysis.Cell{cell}
	for b := range blocks {
		first := b * 5 / 3 % 2
		for i, k := range []int{first, 1 - first, 1 - first, first} {
			o := sides[k].observe(t, p)
			for o.spoiled() {
				if spoiled++; spoiled > 60 {
					t.Skipf("others took the generator's or the server's CPU in %d trials: needs a machine with less to do", spoiled)
				}
				o = sides[k].observe(t, p)
			}
			least = min(least, o.share)
			o.Block, o.Position, o.Instance = b, i, fmt.Sprint(b, o.Contender)
			d.Observations = append(d.Observations, o.Observation)
			if b == 0 {
				t.Logf("%s: %s, generator %.0f %% busy, gates %v", o.Contender, spoken(o.Observation),
					100*o.work.Generator.Utilisation, o.Gates)
			}
		}
	}
	t.Logf("%d trials, %d more were spoiled by others; the server had at least %.0f %% of its CPU",
		len(d.Observations), spoiled, 100*least)
	out := map[string]analysis.Comparison{}
	for _, c := range analysis.Analyse(d).Comparisons {
		out[c.Metric] = c
		if c.Primary && c.Ratio != nil {
			t.Logf("%s: %.3f, %s, gates %v", c.Metric, *c.Ratio, c.Verdict, c.Gates)
		}
	}
	return out, least
}

func spoken(o analysis.Observation) string {
	var out []string
	for _, v := range o.Values {
		if v.Metric == "throughput" || v.Metric == "cpu-per-request" {
			out = append(out, fmt.Sprintf("%.3g %s", v.Value, v.Unit))
		}
	}
	return strings.Join(out, ", ")
}

// Two servers of which one spends several times as much on a request tie,
// because the generator can do no more: throughput gets no verdict, and not the
// one that they were equal. The CPU time per request, registered beside it,
// tells them apart. There are connections enough to keep the generator busy
// while a server waits for its CPU.
func TestAGeneratorAtItsCeilingIsGated(t *testing.T) {
	got, _ := compared(t, sidesOf(t, 0, 2), cellOf(param.Values{"time": "150ms", "connections": "100"}))
	c := got["throughput"]
	ceiling := func(g analysis.Gate) bool {
		return g.Name == "ceiling" && strings.Contains(g.Reason, "the generator used ")
	}
	if c.Verdict != analysis.Inconclusive || !slices.ContainsFunc(c.Gates, ceiling) {
		t.Errorf("throughput: %+v", c)
	}
	c = got["cpu-per-request"]
	gates := slices.DeleteFunc(slices.Clone(c.Gates), byOthers)
	if c.Ratio == nil || *c.Ratio < 1.5 || len(gates) != 0 || len(c.Gates) == 0 && c.Verdict != analysis.Worse {
		t.Errorf("CPU time per request: %+v", c)
	}
}

// byOthers tells that a gate says how the speed changed from trial to trial. Here only
// others can change it, and a gate that says so is right.
func byOthers(g analysis.Gate) bool {
	return g.Name == analysis.ChangeGate || g.Name == analysis.OrderGate
}

// Behind servers that are slower than the generator it is they that are
// measured, and no gate keeps either metric from speaking.
func TestAGeneratorWithTimeToSpareIsNotGated(t *testing.T) {
	got, least := compared(t, sidesOf(t, 100, 200), cellOf(param.Values{"time": "100ms", "connections": "8"}))
	for _, metric := range []string{"throughput", "cpu-per-request"} {
		c := got[metric]
		if metric == "throughput" && least < .5 {
			// What others took of the server's CPU came and went.
			c.Gates = slices.DeleteFunc(slices.Clone(c.Gates), byOthers)
		}
		if c.Blocks == 0 || len(c.Gates) != 0 {
			t.Errorf("%s: %+v", metric, c)
		}
	}
	// The clock's verdict would be the neighbours' too.
	if c := got["cpu-per-request"]; c.Verdict != analysis.Worse {
		t.Errorf("CPU time per request: %+v", c)
	}
}
