package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/prepare/install/plan"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// secretMark is in every secret of the tests.
const secretMark = "hunter2"

// hashMark looks like a hash of crypt(5).
const hashMark = "$6$salt$" + secretMark + secretMark + secretMark + secretMark

func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); fakes[name] != nil || bsdFakes[name] != nil {
		os.Exit(fakeMain(name))
	}
	if os.Getenv("ENGINE_CHILD") != "" {
		os.Exit(childMain())
	}
	os.Exit(m.Run())
}

// childMain runs or verifies the installation of a folder in a process that the test kills.
func childMain() int {
	r, err := Open(os.Getenv("ENGINE_CHILD"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	k := &killer{Conn: local.Conn{}, record: r, step: -1}
	if at, how, ok := strings.Cut(os.Getenv("ENGINE_KILL"), ":"); ok {
		k.step, _ = strconv.Atoi(at)
		k.how = how
	}
	e := &Engine{Record: r, Conn: k, Secrets: &Secrets{}, Say: func(line string) { fmt.Println(line) }}
	if os.Getenv("ENGINE_VERIFY") != "" {
		drifts, unchecked, err := e.Verify(context.Background())
		fmt.Println("drifts:", drifts, "unchecked:", unchecked)
		if err != nil || len(drifts) > 0 {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if err := e.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// killer ends its own process by kill -9 in the middle of the command of a step (mid), the
// first one to run that is not before step, or after it
// (ran), or before the first command that follows its next line in the journal (noted).
type killer struct {
	conn.Conn
	record *Record
	step   int
	how    string
	armed  int // lines of the journal when the command ran
}

func (k *killer) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	for _, word := range append(slices.Clone(cmd.Argv), cmd.Env...) {
		if strings.Contains(word, secretMark) {
			fmt.Fprintln(os.Stderr, "a secret is in", cmd.Argv[0]+"'s arguments or environment")
			os.Exit(3)
		}
	}
	if k.armed > 0 && len(k.record.Lines) > k.armed {
		die()
	}
	if cmd.Argv[0] == os.Getenv("ENGINE_LOST") { // the connection is lost while the program runs
		_, err := k.Conn.Exec(ctx, cmd)
		return conn.Exit{}, errors.Join(fault.New(fault.Lab, "lost the connection"), err)
	}
	last := k.record.Lines[len(k.record.Lines)-1]
	at := slices.IndexFunc(k.record.Plan.Steps, func(s plan.Step) bool {
		begun := last.Event == eventStart && last.Step == s.ID || s.Releases != ""
		return begun && slices.Equal(cmd.Argv, s.Argv)
	})
	if k.how == "" || k.armed > 0 || at < k.step {
		return k.Conn.Exec(ctx, cmd)
	}
	fmt.Printf("killed at %d\n", at)
	if k.how == "mid" {
		go func() {
			time.Sleep(3 * time.Millisecond)
			die()
		}()
	}
	exit, err := k.Conn.Exec(ctx, cmd)
	switch k.how {
	case "mid", "ran":
		die()
	default:
		k.armed = len(k.record.Lines)
	}
	return exit, err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// TestKilled installs once without a disturbance, and then again while the installation is
// killed at some steps (with BAKEOFF_TEST_LONG, at every step in each of three ways),
// some of the times together with the machine. The ends are the same.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device, and is killed many times")
	}
	for _, c := range []struct {
		name, recipe  string
		disks, stride int // each kill costs the checks of all steps before it
	}{{"void", voidSpec, 1, 4}, {"debian", debianSpec, 1, 8}, {"mirror", mirrorSpec, 2, 12}, {"grub", grubSpec, 2, 12},
		{"plain", plainSpec, 1, 20}} {
		t.Run(c.name, func(t *testing.T) { killed(t, newMachine(t, c.disks), c.recipe, c.stride) })
	}
}

func killed(t *testing.T, m *machine, recipe string, stride int) {
	killedUntil(t, m, m.plan(recipe), stride, m.endState)
	m.noSecrets()
}

// killedUntil executes a plan without a disturbance, and then killed on an empty disk, and
// compares the states of the ends.
func killedUntil(t *testing.T, m *machine, p *plan.Plan, stride int, endState func() string) {
	t.Helper()
	m.powerOn()
	record := m.begin(p, "straight")
	watch := watchProcesses(t)
	out, err := m.run(record)
	leaks := watch()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(leaks) > 0 {
		t.Errorf("secrets in %q", leaks)
	}
	want := endState()
	if out, err := m.run(record, "ENGINE_VERIFY=1"); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if got := endState(); got != want {
		t.Errorf("verify changed the system:\n%s", firstDifference(want, got))
	}
	if len(m.disks) > 1 {
		m.mirrored(record)
	}
	hows := []string{"mid", "ran", "noted"}
	rounds := 1
	if os.Getenv("BAKEOFF_TEST_LONG") != "" {
		rounds, stride = len(hows), 1
	}
	for round := range rounds {
		m.powerOff()
		m.blank()
		m.powerOn()
		record := m.begin(p, fmt.Sprintf("killed-%d", round))
		killed, cut := 0, 0
		for i := 0; i < len(p.Steps); i += stride {
			out, err = m.run(record, fmt.Sprintf("ENGINE_KILL=%d:%s", i, hows[(killed+round)%len(hows)]))
			if err == nil {
				break
			}
			i = m.killedAt(record, out, err)
			killed++
			if killed%5 == 0 { // the machine goes too
				m.cutPower()
				m.powerOn()
				cut++
			}
		}
		if out, err = m.run(record); err != nil && !strings.Contains(out, "has ended") {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("killed %d times in %d steps, %d times with the machine", killed, len(p.Steps), cut)
		if killed < len(p.Steps)/stride/2 {
			t.Errorf("killed only %d times", killed)
		}
		if got := endState(); got != want {
			t.Errorf("the end differs:\n%s", firstDifference(want, got))
		}
	}
}

// TestPowerCut cuts the power right after each step that is noted as done and that resume would not repeat,
// because later steps change what its checks see or it has none. What the step wrote is there.
func TestPowerCut(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device, and cuts the power many times")
	}
	for _, c := range []struct {
		name string
		plan func(m *machine) *plan.Plan
		end  func(m *machine) string
	}{
		{"debian", func(m *machine) *plan.Plan { return m.plan(debianSpec) }, (*machine).endState},
		{"netbsd", func(m *machine) *plan.Plan { m.asNetBSD(); return m.bsdPlan("") }, (*machine).bsdState},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, 1)
			p := c.plan(m)
			m.powerOn()
			if out, err := m.run(m.begin(p, "straight")); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want := c.end(m)
			m.powerOff()
			m.blank()
			m.powerOn()
			record, cuts, at := m.begin(p, "cut"), 0, -1
			for i, s := range p.Steps {
				if i <= at || s.Local || s.Releases != "" || len(s.Checks) > 0 && !s.Once {
					continue
				}
				out, err := m.run(record, fmt.Sprintf("ENGINE_KILL=%d:noted", i))
				if at = m.killedAt(record, out, err); at < i {
					t.Fatalf("%s: killed at %d", s.ID, at)
				}
				m.cutPower()
				m.powerOn()
				cuts++
			}
			if out, err := m.run(record); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := c.end(m); got != want {
				t.Errorf("the end differs after %d power cuts:\n%s", cuts, firstDifference(want, got))
			}
			t.Logf("%d power cuts", cuts)
		})
	}
}

// killedAt is the step at which an installation was killed, after its folder is free.
func (m *machine) killedAt(record, out string, err error) int {
	m.t.Helper()
	if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) ||
		ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		m.t.Fatalf("not killed: %v\n%s", err, out)
	}
	_, at, _ := strings.Cut(out, "killed at ")
	at, _, _ = strings.Cut(at, "\n")
	i, err := strconv.Atoi(at)
	if err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
	m.unlocked(record)
	return i
}

// unlocked waits until a killed engine's folder is free: a program that was just being started
// still holds what the killed process had open.
func (m *machine) unlocked(record string) {
	for end := time.Now().Add(time.Minute); lock.Held(filepath.Join(record, "lock")) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// mirrored reads both ESPs, which hold the same files, and exchanges the second disk.
func (m *machine) mirrored(record string) {
	m.t.Helper()
	for _, d := range m.disks {
		to := m.dir + "/fat" + filepath.Base(d)
		if err := os.Mkdir(to, 0o700); err != nil {
			m.t.Fatal(err)
		}
		m.must("mcopy", "-s", "-i", d+"p1", "::", to)
	}
	m.must("diff", "-r", m.dir+"/fat"+filepath.Base(m.disks[0]), m.dir+"/fat"+filepath.Base(m.disks[1]))
	if _, err := os.Stat(m.dir + "/fat" + filepath.Base(m.disks[1]) + "/EFI/BOOT/BOOTX64.EFI"); err != nil {
		m.t.Error(err)
	}
	table := m.must("sgdisk", "-p", m.disks[1])
	gpt, _, _ := strings.Cut(strings.SplitAfter(table, "Disk identifier (GUID): ")[1], "\n")
	m.must("sgdisk", "-U", "11111111-2222-8333-8444-555555555555", m.disks[1])
	if out, err := m.run(record, "ENGINE_VERIFY=1"); err == nil || !strings.Contains(out, "another partition table") {
		m.t.Errorf("%v\n%s", err, out)
	}
	m.must("sgdisk", "-U", gpt, m.disks[1])
}

// noSecrets searches the records and what the fakes saw.
func (m *machine) noSecrets() {
	m.t.Helper()
	if b, err := os.ReadFile(m.dir + "/keep/leak"); err == nil {
		m.t.Errorf("a program was started with a secret: %q", b)
	}
	records, _ := filepath.Glob(m.dir + "/*/journal.ndjson")
	searched := 0
	for _, r := range records {
		for _, name := range []string{"plan.json", "journal.ndjson", "log"} {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(r), name))
			if err != nil {
				m.t.Fatal(err)
			}
			if searched++; bytes.Contains(b, []byte(secretMark)) {
				m.t.Errorf("a secret is in %s", name)
			}
		}
	}
	if searched < 6 {
		m.t.Errorf("only %d files were searched", searched)
	}
}

// watchProcesses searches the command lines and environments of all processes for secrets
// until the function that it returns is called. A process with a mark of its own shows that
// it would find one.
func watchProcesses(t *testing.T) func() []string {
	t.Helper()
	const control = "hunter3-control"
	bait := exec.Command("sleep", "3600")
	bait.Env = []string{"BAIT=" + control}
	if err := bait.Start(); err != nil {
		t.Fatal(err)
	}
	stop, found := make(chan struct{}), make(chan []string)
	go func() {
		var leaks []string
		bitten := false
		for {
			dirs, _ := filepath.Glob("/proc/[0-9]*")
			for _, d := range dirs {
				for _, f := range []string{"cmdline", "environ"} {
					b, _ := os.ReadFile(d + "/" + f)
					if bytes.Contains(b, []byte(secretMark)) {
						leaks = append(leaks, string(b))
					}
					bitten = bitten || bytes.Contains(b, []byte(control))
				}
			}
			select {
			case <-stop:
				if !bitten {
					leaks = append(leaks, "the search does not find the bait")
				}
				found <- leaks
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() []string {
		close(stop)
		leaks := <-found
		_ = bait.Process.Kill()
		_ = bait.Wait()
		return leaks
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "- " + x[i] + "\n+ " + y[i]
		}
	}
	return fmt.Sprintf("%d lines and %d lines", len(x), len(y))
}
