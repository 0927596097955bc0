//go:build linux

// Package slurmtest starts a whole Slurm on this machine, for tests and for trying: munged,
// slurmctld, and a slurmd for each of four nodes. Everything is in one folder, with ports and
// a munge key of its own; nothing of an installed Slurm is used or changed. It needs no root:
// an ordinary user's Slurm executes the jobs of that user.
package slurmtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/shell"
	"bakeoff/base/sleep"
)

// Nodes are the names of the nodes. The last one has room for many jobs at once: each
// stands for a machine that cannot run slurmd, by a license.
var Nodes = []string{"bk1", "bk2", "bk3", "px1"}

// Licenses stand for machines that cannot run slurmd.
var Licenses = []string{"bsd1", "bsd2"}

// The packages of Debian that a whole Slurm needs.
const Packages = "apt-get install slurmctld slurmd slurm-client munge"

// sh begins the scripts of nodes: Slurm sets no PATH.
const sh = "#!/bin/sh\nexport PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"

// Slurm is a Slurm that runs.
type Slurm struct {
	// Dir has the configuration, the logs and the state of everything.
	Dir string
	// Conf is slurm.conf, and Cluster is the cluster file of bakeoff.
	Conf, Cluster string

	mu      sync.Mutex
	daemons map[string]*exec.Cmd
}

// controller is the name of slurmctld among the daemons, and munge that of munged.
const (
	controller = "slurmctld"
	munge      = "munged"
)

// Missing names the first program that this machine lacks; "" if it has all.
func Missing() string {
	for _, name := range []string{"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "sinfo", "scancel"} {
		if path(name) == "" {
			return name
		}
	}
	return ""
}

// path finds a program, also in the folders of the administrator.
func path(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p
		}
	}
	return ""
}

// Start starts a Slurm in the folder dir, which must exist. bakeoff is the program that the
// jobs execute. Each node has a state folder, a cache and a lock of its own.
func Start(ctx context.Context, dir, bakeoff string) (_ *Slurm, err error) {
	s := &Slurm{Dir: dir, Conf: filepath.Join(dir, "slurm.conf"), Cluster: filepath.Join(dir, "cluster.yaml"),
		daemons: map[string]*exec.Cmd{}}
	if err := s.write(bakeoff); err != nil {
		return nil, fault.Op("slurm", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	socket := filepath.Join(dir, "m", "socket")
	if err := s.start(munge, path("munged"), "--foreground", "--socket="+socket,
		"--key-file="+filepath.Join(dir, "m", "key"),
		"--log-file="+filepath.Join(dir, "log", "munged.log"), "--pid-file="+filepath.Join(dir, "m", "pid"),
		"--seed-file="+filepath.Join(dir, "m", "seed")); err != nil {
		return nil, err
	}
	if err := s.wait(ctx, "munged to listen", func() bool { _, err := os.Stat(socket); return err == nil }); err != nil {
		return nil, err
	}
	if err := s.StartController(); err != nil {
		return nil, err
	}
	for _, n := range Nodes {
		if err := s.StartNode(n); err != nil {
			return nil, err
		}
	}
	return s, s.wait(ctx, "all nodes to be idle", func() bool {
		out, err := s.Command("sinfo", "--noheader", "--Node", "--format=%T").Output()
		return err == nil && strings.Count(string(out), "idle\n") >= len(Nodes)
	})
}

// write writes the configuration.
func (s *Slurm) write(bakeoff string) error {
	for _, d := range []string{"", "ctld", "m", "log", "cgroup", "node", "tmp"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, d := range []string{"node", "tmp"} {
		if err := os.Chmod(filepath.Join(s.Dir, d), 0o777|os.ModeSticky); err != nil {
			return err
		}
	}
	key := make([]byte, 128)
	rand.Read(key)
	me, err := user.Current()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	ports, err := freePorts(1 + len(Nodes))
	if err != nil {
		return err
	}
	node, reach := filepath.Join(s.Dir, "node.sh"), filepath.Join(s.Dir, "reach.sh")
	conf := strings.NewReplacer("@S", s.Dir, "@HOST", host, "@USER", me.Username, "@PORT", ports[0],
		"@HELD", "nohold_on_prolog_fail", "@LICENSES", strings.Join(Licenses, ":1,")+":1", "@NODES",
		nodeLines(host, ports[1:])).Replace(confText)
	for _, f := range []struct {
		path, text string
		mode       os.FileMode
	}{
		{filepath.Join(s.Dir, "m", "key"), string(key), 0o400},
		{s.Conf, conf, 0o644},
		// No control groups: their folder is an empty one.
		{filepath.Join(s.Dir, "cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint=" +
			filepath.Join(s.Dir, "cgroup") + "\n", 0o644},
		// A node's own bakeoff: nodes share no folder but that of temporary files. The path of a socket
		// in it is short, and a job that is killed leaves an SSH connection there.
		{node, "#!/bin/sh\nexport SLURM_CONF=" + shell.Quote(s.Conf) + " BAKEOFF_CLUSTER=" +
			shell.Quote(s.Cluster) + "\nd=" + shell.Quote(filepath.Join(s.Dir, "node")) + "/$(id -u).$SLURMD_NODENAME\n" +
			"mkdir -p \"$d\"\nexport BAKEOFF_STATE=\"$d/state\" BAKEOFF_LOCK=\"$d/lock\" BAKEOFF_CACHE=\"$d/cache\" " +
			"BAKEOFF_SSH_CONFIG=" + shell.Quote(s.SSHConfig()) + " TMPDIR=" + shell.Quote(filepath.Join(s.Dir, "tmp")) + "\n" +
			"exec " + shell.Quote(bakeoff) + " \"$@\"\n", 0o755},
		{filepath.Join(s.Dir, "prolog"), "#!/bin/sh\n! [ -e " + shell.Quote(s.broken("")) + "\"$SLURMD_NODENAME\" ]\n",
			0o755},
		{reach, "#!/bin/sh\n! [ -e " + shell.Quote(s.silent("")) + "\"$1\" ] || exit 255\n" +
			"export SLURMD_NODENAME=\"$1\"\nshift\nexec \"$@\"\n", 0o755},
		{filepath.Join(s.Dir, "epilog"), sh + "exec " + shell.Quote(node) + " clean --local >/dev/null\n", 0o755},
		{filepath.Join(s.Dir, "health"), sh + "[ -e " + shell.Quote(s.health()) + " ] || exit 0\n" +
			"exec " + shell.Quote(s.health()) + "\n", 0o755},
		{s.Cluster, strings.NewReplacer("@NODE", node, "@REACH", reach).Replace(clusterText), 0o644},
	} {
		if err := os.WriteFile(f.path, []byte(f.text), f.mode); err != nil {
			return err
		}
	}
	return nil
}

func nodeLines(host string, ports []string) string {
	var b strings.Builder
	for i, n := range Nodes {
		cpus, feature := 2, " Features=class_a"
		if n == "px1" {
			cpus, feature = 64, ""
		}
		fmt.Fprintf(&b, "NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%s CPUs=%d RealMemory=1000%s\n", n, host,
			ports[i], cpus, feature)
	}
	return b.String()
}

const confText = `ClusterName=try
SlurmctldHost=@HOST(127.0.0.1)
SlurmctldPort=@PORT
SlurmUser=@USER
SlurmdUser=@USER
AuthType=auth/munge
AuthInfo=socket=@S/m/socket
CredType=cred/munge
StateSaveLocation=@S/ctld
SlurmdSpoolDir=@S/d.%n
SlurmctldPidFile=@S/ctld.pid
SlurmdPidFile=@S/%n.pid
SlurmctldLogFile=@S/log/slurmctld.log
SlurmdLogFile=@S/log/%n.log
SlurmdParameters=config_overrides
MpiDefault=none
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=5,bf_interval=5,bf_continue,bf_licenses,default_queue_depth=1000,@HELD
JobCompType=jobcomp/none
Prolog=@S/prolog
Epilog=@S/epilog
HealthCheckProgram=@S/health
HealthCheckInterval=5
HealthCheckNodeState=IDLE
KillWait=20
SlurmdTimeout=20
MessageTimeout=10
MinJobAge=300
ReturnToService=2
MaxNodeCount=16
Licenses=@LICENSES
@NODESPartitionName=lab Nodes=bk[1-3] Default=YES MaxTime=1-0 PriorityTier=10 OverSubscribe=EXCLUSIVE
PartitionName=proxy Nodes=px1 MaxTime=1-0 OverSubscribe=FORCE:64
`

const clusterText = `schema: bakeoff/cluster/v1
# Each node of this cluster is this machine with a state folder of its own.
program: ["@NODE"]
reach: ["@REACH", "{host}"]
limit: 1h
patience: 1m
pools:
  lab: {partition: lab, feature: class_a}
  proxy:
    partition: proxy
    hosts:
      bsd1: {ssh: root@bsd1, node: px1}
      bsd2: {ssh: root@bsd2, node: px1}
`

// freePorts finds ports that nothing uses.
func freePorts(n int) (out []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return out, nil
}

// SSHConfig is a configuration of ssh through which the nodes reach each other and the hosts
// that are licenses. It need not exist: other jobs do not use it.
func (s *Slurm) SSHConfig() string { return filepath.Join(s.Dir, "ssh-config") }

// broken is the file that makes the prolog of a node fail.
func (s *Slurm) broken(node string) string { return filepath.Join(s.Dir, "broken.") + node }

// BreakProlog makes what a node does before a job fail; Slurm then drains the node.
func (s *Slurm) BreakProlog(node string) error { return os.WriteFile(s.broken(node), nil, 0o644) }

// health is what a node executes from time to time while it is idle; it need not exist.
func (s *Slurm) health() string { return filepath.Join(s.Dir, "health.on") }

// Health has idle nodes execute a script from time to time.
func (s *Slurm) Health(script string) error {
	if err := os.WriteFile(s.health()+".new", []byte(script), 0o755); err != nil {
		return err
	}
	return os.Rename(s.health()+".new", s.health())
}

// silent is the file that makes a host give no answer.
func (s *Slurm) silent(host string) string { return filepath.Join(s.Dir, "silent.") + host }

// Silence makes a host give no answer to bakeoff.
func (s *Slurm) Silence(host string) error { return os.WriteFile(s.silent(host), nil, 0o644) }

// Env are the variables for commands that use this Slurm.
func (s *Slurm) Env() []string {
	return []string{"SLURM_CONF=" + s.Conf, "BAKEOFF_CLUSTER=" + s.Cluster}
}

// Command is a command of this Slurm.
func (s *Slurm) Command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), s.Env()...)
	return c
}

// start starts a daemon in the foreground.
func (s *Slurm) start(name, program string, args ...string) error {
	log, err := os.OpenFile(filepath.Join(s.Dir, "log", name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fault.Op("slurm", err)
	}
	defer log.Close()
	c := s.Command(program, args...)
	c.Stdout, c.Stderr, c.Dir = log, log, s.Dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		return fault.Op("slurm: "+name, err)
	}
	s.mu.Lock()
	s.daemons[name] = c
	s.mu.Unlock()
	return nil
}

// StartController starts slurmctld.
func (s *Slurm) StartController() error { return s.start(controller, path("slurmctld"), "-D") }

// StartNode starts the slurmd of a node.
func (s *Slurm) StartNode(name string) error { return s.start(name, path("slurmd"), "-D", "-N", name) }

// KillController kills slurmctld as kill -9 does, and waits for its end.
func (s *Slurm) KillController() { s.end(controller, syscall.SIGKILL) }

// LoseController kills slurmctld and removes everything that it knew.
func (s *Slurm) LoseController() error {
	s.KillController()
	dir := filepath.Join(s.Dir, "ctld")
	return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755))
}

// KillNode kills the slurmd of a node; its jobs go on.
func (s *Slurm) KillNode(name string) { s.end(name, syscall.SIGKILL) }

// Crash ends a node as a loss of power does: its slurmd, its jobs and what waits for them.
func (s *Slurm) Crash(name string) error {
	s.KillNode(name)
	return s.reap(func(pid int, vars []string) bool {
		if !slices.Contains(vars, "SLURMD_NODENAME="+name) || !hasJob(vars) {
			return false
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
			if parent, err := strconv.Atoi(fields[1]); err == nil && program(parent) == "slurmstepd" {
				_ = syscall.Kill(parent, syscall.SIGKILL) // it would report the end of the job
			}
		}
		return true
	})
}

// end ends a daemon and waits for it.
func (s *Slurm) end(name string, sig syscall.Signal) {
	s.mu.Lock()
	c := s.daemons[name]
	delete(s.daemons, name)
	s.mu.Unlock()
	if c == nil {
		return
	}
	_ = c.Process.Signal(sig) // it may have ended
	timer := time.AfterFunc(20*time.Second, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	_ = c.Wait()
}

// Stop cancels the jobs, ends all daemons, and all processes of jobs.
func (s *Slurm) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if s.daemons[controller] != nil {
		// What does not end here is ended below.
		_ = s.wait(ctx, "the jobs to end", func() bool {
			out, err := s.Command("squeue", "--noheader", "--format=%A").Output()
			if ids := strings.Fields(string(out)); err == nil && len(ids) > 0 {
				_ = s.Command("scancel", ids...).Run()
			}
			return err == nil && len(out) == 0
		})
	}
	for _, n := range append(slices.Clone(Nodes), controller, munge) {
		s.end(n, syscall.SIGTERM)
	}
	return s.reap(ours) // also the jobs whose slurmd was killed
}

// reap ends the processes whose environment names this Slurm and that are of a kind.
func (s *Slurm) reap(is func(pid int, vars []string) bool) error {
	for range 100 {
		found := false
		all, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return err
		}
		for _, p := range all {
			env, err := os.ReadFile(p)
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
			vars := strings.Split(string(env), "\x00")
			if err != nil || !slices.Contains(vars, "SLURM_CONF="+s.Conf) || !is(pid, vars) {
				continue
			}
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		if !found {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fault.New(fault.Lab, "slurm: processes of %s do not end", s.Dir)
}

// ours reports whether a process belongs to a job or is a daemon: a shell in which a person
// set SLURM_CONF is neither.
func ours(pid int, vars []string) bool {
	return hasJob(vars) || slices.Contains([]string{"slurmstepd", "slurmctld", "slurmd"}, program(pid))
}

// hasJob reports whether variables are those of a process of a job.
func hasJob(vars []string) bool {
	return slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, "SLURM_JOB_ID=") })
}

// program is the name of the program of a process; "" if it has ended.
func program(pid int) string {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	return filepath.Base(exe)
}

// wait waits for a condition.
func (s *Slurm) wait(ctx context.Context, what string, is func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !is() {
		if sleep.For(ctx, 50*time.Millisecond) != nil {
			return fault.New(fault.Lab, "slurm: waited for %s; see %s", what, filepath.Join(s.Dir, "log"))
		}
	}
	return nil
}
