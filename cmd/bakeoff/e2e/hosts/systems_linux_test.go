package hosts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/conn/sshtest"
)

// machineInit brings a machine up to where its own system starts.
const machineInit = `#!/bin/busybox sh
export PATH=/bin:/sbin:/usr/sbin
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mkdir -p /dev/pts /run/sshd /tmp /data /var/run; mount -t devpts none /dev/pts
for m in /modules/*; do insmod $m; done
ip link set lo up; ip address add 10.0.2.15/24 dev eth0; ip link set eth0 up
ip address add 10.9.0.ADDRESS/24 dev eth1; ip link set eth1 up
mount -t ext4 /dev/vda /data || echo no disk
`

// alpineInit starts a system of busybox, as Alpine is, on which only the agent and sshd are
// from elsewhere.
const alpineInit = `printf 'ID=alpine\n' >/etc/os-release
/usr/sbin/sshd -D -e -f /etc/ssh/sshd_config
echo sshd ended; sleep 1; reboot -f
`

// debianInit starts a Debian, with its own sshd, that has room for the state of bakeoff.
const debianInit = `mkdir -p /deb; mount -t ext4 /dev/vdb /deb
for d in proc sys dev; do mount --bind /$d /deb/$d; done
mkdir -p /deb/run/sshd /deb/root/.ssh /deb/dev/pts /data/lib /data/cache
mkdir -p /deb/var/lib/bakeoff /deb/var/cache/bakeoff
mount --bind /data/lib /deb/var/lib/bakeoff; mount --bind /data/cache /deb/var/cache/bakeoff
cp /root/.ssh/authorized_keys /deb/root/.ssh; cp /etc/ssh/key /etc/ssh/sshd_config /deb/etc/ssh
mount -t devpts none /deb/dev/pts
chroot /deb /usr/sbin/sshd -D -e -f /etc/ssh/sshd_config
echo sshd ended; sleep 1; reboot -f
`

// debianPackages are those of the Debian.
var debianPackages = []string{"nginx-light", "openssh-server", "openssl"}

// TestImages builds the image of the Debian, which make test runs where the tests cannot download
// packages.
func TestImages(t *testing.T) {
	needsLong(t)
	store := image.Store{Dir: images, Host: local.Conn{}}
	_, err := store.Get(t.Context(), image.Request{Ref: "debian:bookworm", Packages: debianPackages, Disk: true})
	if err != nil {
		t.Fatal(err)
	}
}

// needsLong skips a test of two emulated machines without BAKEOFF_TEST_LONG.
func needsLong(t *testing.T) {
	t.Helper()
	e2e.NeedsRoot(t)
	if os.Getenv("BAKEOFF_TEST_LONG") == "" {
		t.Skip("boots two emulated machines and takes minutes: set BAKEOFF_TEST_LONG=1")
	}
}

// twoMachines starts a Debian and a machine like Alpine, with a link of their own, and
// returns a configuration of ssh that knows them and refuses all others.
func twoMachines(t *testing.T, h e2e.Home) string {
	t.Helper()
	port := sshtest.FreePort(t)
	link := func(how string) []string {
		return []string{"-smp", "2", "-netdev", "socket,id=l," + how, "-device",
			"virtio-net-pci,netdev=l,romfile=,mac=52:54:00:09:00:0" + map[bool]string{true: "1", false: "2"}[how[0] == 'l']}
	}
	at := "=127.0.0.1:" + strconv.Itoa(port)
	debian := startMachine(t, h, guestOptions{name: "debian", uuid: "6f1d5c0e-54a9-4c4b-9d1d-0a2b3c4d5e71",
		init: strings.Replace(machineInit, "ADDRESS", "1", 1) + debianInit, more: link("listen" + at),
		packages: debianPackages})
	alpine := startMachine(t, h, guestOptions{name: "alpine", uuid: "6f1d5c0e-54a9-4c4b-9d1d-0a2b3c4d5e72",
		init: strings.Replace(machineInit, "ADDRESS", "2", 1) + alpineInit, more: link("connect" + at)})
	debian.wait(t, "debian")
	alpine.wait(t, "alpine")
	config := filepath.Join(h.Dir, "ssh-config")
	var text []byte
	for _, file := range []string{debian.config, alpine.config} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	text = append(text, "Host *\n  HostName 127.0.0.1\n  Port 1\n"...)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// Bare machines over SSH run what they have programs for; the others of the example are
// missing with their reason, and the run decides. Load also comes from one machine to the other.
func TestBareMachines(t *testing.T) {
	needsLong(t)
	h := e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+twoMachines(t, h))
	t.Run("load", func(t *testing.T) { loadBetweenMachines(t, h) })
	lab, err := filepath.Abs("../../../../examples/systems")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	out, errs, code := h.Bakeoff(t, 25*time.Minute, "run", lab, "--seed", "3", "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	t.Logf("%d blocks in %v, exit code %d", r.Blocks, time.Since(began).Round(time.Second), code)
	why := map[string]string{}
	for _, m := range r.Missing {
		why[m.Contender] += m.Cell + ": " + m.Reason + "\n"
	}
	for name, says := range map[string]string{"netbsd": "Connection refused", "openbsd": "Connection refused",
		"zone": "Connection refused", "jail": "Connection refused", "lx-debian": "Connection refused",
		"lx-alpine": "Connection refused", "docker": "docker", "alpine": "nginx"} {
		if !strings.Contains(why[name], says) {
			t.Errorf("%s is missing because of %q, want %q", name, why[name], says)
		}
	}
	values := map[string]bool{}
	for _, s := range r.Summaries {
		if s.N > 0 && s.Median != nil && s.Metric == "throughput" {
			values[s.Contender+" "+s.Cell] = true
			t.Logf("%s %s: %.4g", s.Contender, s.Cell, *s.Median)
		}
	}
	for _, want := range []string{"here http", "debian http", "debian https", "debian sha256", "debian syscall",
		"alpine sha256", "alpine syscall"} {
		if !values[want] {
			t.Errorf("no value of %s; missing there: %s", want, why[strings.Fields(want)[0]])
		}
	}
	decided := 0
	for _, c := range r.Comparisons {
		t.Logf("%s %s %s: %s", c.Contender, c.Cell, c.Metric, c.Verdict)
		if c.Verdict == "worse" || c.Verdict == "better" || c.Verdict == "equivalent" {
			decided++
		}
	}
	if decided == 0 {
		t.Error("nothing is decided")
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// machineLoad has the load for one machine come from another one, over their own network.
const machineLoad = `schema: bakeoff/lab/v1
name: between
hosts: {debian: {ssh: debian, address: 10.9.0.1}, alpine: {ssh: alpine}}
generator: alpine
contenders:
  - {name: one, driver: machine, host: debian}
  - {name: two, driver: machine, host: debian}
baseline: one
cells: [{name: web, workload: http, params: {time: 300ms, connections: 4}, primary: [throughput]}]
design: {blocks: 1, mirror: false}
`

func loadBetweenMachines(t *testing.T, h e2e.Home) {
	lab := filepath.Join(h.Dir, "between.yaml")
	write(t, lab, machineLoad)
	out, errs, code := h.Bakeoff(t, 5*time.Minute, "run", lab, "--json")
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	values := 0
	for _, s := range r.Summaries {
		if s.Metric == "throughput" && s.N > 0 && s.Median != nil && *s.Median > 0 {
			t.Logf("%s: %.4g requests/s from alpine", s.Contender, *s.Median)
			values++
		}
	}
	if values != 3 || len(r.Missing) > 0 {
		t.Errorf("%d of 3 have a throughput; missing: %+v\n%s", values, r.Missing, errs)
	}
	journal, err := os.ReadFile(filepath.Join(h.Dir, r.Folder, "journal.ndjson"))
	if err != nil || !strings.Contains(string(journal), "from host alpine over the machines' own network") {
		t.Errorf("the journal does not say where the load came from: %v", err)
	}
}
