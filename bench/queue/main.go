// Command queue shows how the queue of bakeoff run --on slurm grows with the number of hosts
// and of jobs.
//
//	go run ./bench/queue [-hosts 10,100,1000] [-each 10]
//
// Slurm and the hosts are simulated: sbatch, squeue, sinfo and the program that answers for a
// host are this program under other names. Each starts a process, as the real ones do, and
// none waits. So the figures are the queue's own work and the number of programs that it
// starts; those of a real Slurm take longer. Every job ends at once with a run folder of
// 64 KiB.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/bench/start"
	"bakeoff/lab/queue"
	"bakeoff/lab/store"
)

// standIns are the programs of Slurm that the queue starts, and "reach", which executes a
// command on a host.
var standIns = map[string]func(dir string, args []string) error{
	"sbatch": sbatch, "squeue": squeue, "sinfo": sinfo, "reach": reach,
}

// folder names the folder of the simulation in the environment of a stand-in.
const folder = "BENCH_QUEUE"

func main() {
	if do, ok := standIns[filepath.Base(os.Args[0])]; ok {
		if err := do(os.Getenv(folder), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	hosts := flag.String("hosts", "10,100,1000", "numbers of hosts")
	each := flag.Int("each", 10, "jobs for each host")
	flag.Parse()
	start.Main("bench/queue", func(ctx context.Context) error {
		return measure(ctx, strings.Split(*hosts, ","), *each)
	})
}

// sbatch accepts a job: its number is the length of the list of jobs, which it appends to.
func sbatch(dir string, args []string) error {
	var uuid, nodes string
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "--comment="); ok {
			uuid = v
		} else if v, ok := strings.CutPrefix(a, "--nodelist="); ok {
			nodes = v
		}
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "jobs"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "%d|PENDING||%s|ann|N/A|Priority|(null)|bakeoff-x|%s\n", at+1, nodes, uuid); err != nil {
		return err
	}
	fmt.Println(at + 1)
	return f.Close()
}

// squeue prints the list of jobs. All have ended once there is the file ended.
func squeue(dir string, _ []string) error {
	text, err := os.ReadFile(filepath.Join(dir, "jobs"))
	if os.IsNotExist(err) {
		return nil
	}
	if _, ended := os.Stat(filepath.Join(dir, "ended")); ended == nil {
		text = []byte(strings.ReplaceAll(string(text), "|PENDING|", "|COMPLETED|"))
	}
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}

// sinfo prints the nodes.
func sinfo(dir string, _ []string) error {
	text, err := os.ReadFile(filepath.Join(dir, "nodes"))
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}

// reach is bakeoff queue node on a host. Its jobs have run when the queue asks for them.
func reach(dir string, args []string) error {
	if len(args) < 6 { // NAME, bakeoff queue node COMMAND UUID
		return fmt.Errorf("unexpected command %q", args)
	}
	h, uuid := queue.Host{Dir: filepath.Join(dir, args[0])}, args[5]
	switch args[4] {
	case "send":
		if err := ran(h, uuid); err != nil {
			return err
		}
		return h.Send(os.Stdout, uuid, !slices.Contains(args, "--status"))
	case "drop":
		if err := h.Drop(uuid); err != nil {
			return err
		}
		return h.Send(os.Stdout, uuid, false)
	}
	return fmt.Errorf("unexpected command %q", args)
}

// ran makes what a job leaves on its host.
func ran(h queue.Host, uuid string) error {
	run := filepath.Join(h.Dir, uuid, "runs", "20260102T030405Z-x")
	if _, err := os.Stat(run); err == nil {
		return nil
	}
	if err := os.MkdirAll(run, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(run, store.JournalFile), make([]byte, 64<<10), 0o600); err != nil {
		return err
	}
	text := fmt.Sprintf(`{"schema":"bakeoff/queue-result/v1","uuid":%q,"state":"done","code":0,`+
		`"run":"20260102T030405Z-x","starts":1,"bytes":65536}`, uuid)
	return os.WriteFile(filepath.Join(h.Dir, uuid, "result.json"), []byte(text), 0o600)
}

// measure prints a line for each number of hosts.
func measure(ctx context.Context, hosts []string, each int) error {
	fmt.Println("for each job:")
	fmt.Println("hosts    jobs    record      submit   nothing new     collect   CPU of the queue itself")
	for _, text := range hosts {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || each < 1 {
			return fault.New(fault.Invalid, "usage: queue [-hosts 10,100,1000] [-each 10]")
		}
		if err := simulate(ctx, n, n*each); err != nil {
			return err
		}
	}
	return nil
}

// simulate records jobs, submits them, looks once while nothing is new, and collects them.
func simulate(ctx context.Context, hosts, jobs int) error {
	dir, err := os.MkdirTemp("", "bench-queue-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for name := range standIns {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	var nodes strings.Builder
	for i := range hosts {
		fmt.Fprintf(&nodes, "bk%d|idle|2|4000|(null)|lab*|Unknown|Unknown|none\n", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "nodes"), []byte(nodes.String()), 0o600); err != nil {
		return err
	}
	for name, value := range map[string]string{folder: dir, "PATH": dir + ":" + os.Getenv("PATH")} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	cluster, err := queue.Parse("cluster.yaml", []byte("schema: bakeoff/cluster/v1\nprogram: [bakeoff]\nreach: ["+
		filepath.Join(dir, "reach")+", \"{host}\"]\npools:\n  lab: {partition: lab}\n"))
	if err != nil {
		return err
	}
	q := &queue.Queue{Dir: filepath.Join(dir, "record"), Cluster: cluster, Note: func(s string) { fmt.Println(s) }}
	asks := make([]queue.Ask, jobs)
	for i := range asks {
		asks[i] = queue.Ask{Lab: "x", Pools: []string{"lab"}, Bind: []string{""}, User: "ann", At: time.Now(),
			Out: filepath.Join(dir, "runs"), Order: queue.Order{Limit: time.Hour}}
	}
	var times []time.Duration
	before := cpuTime()
	step := func(do func() error) error {
		began := time.Now()
		err := do()
		times = append(times, time.Since(began))
		return err
	}
	round := func() error { return q.Round(ctx) }
	for _, do := range []func() error{
		func() error {
			for _, ask := range asks { // one command each: jobs of one command need different hosts
				_, err := q.Add([]queue.Ask{ask}, func(a queue.Ask) ([]byte, error) { return queue.Parcel(a.Order, nil, nil) })
				if err != nil {
					return err
				}
			}
			return nil
		}, round, round,
		func() error {
			if err := os.WriteFile(filepath.Join(dir, "ended"), nil, 0o600); err != nil {
				return err
			}
			return q.Round(ctx)
		},
	} {
		if err := step(do); err != nil {
			return err
		}
	}
	own := cpuTime() - before
	if err := check(q, jobs); err != nil {
		return err
	}
	per := func(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3/float64(jobs)) }
	fmt.Printf("%5d %7d %9s %11s %13s %11s %12s\n", hosts, jobs, per(times[0]), per(times[1]), per(times[2]),
		per(times[3]), per(own))
	return nil
}

// check refuses figures of jobs that did not all end with a run folder.
func check(q *queue.Queue, jobs int) error {
	all, err := q.Jobs(true)
	if err != nil {
		return err
	}
	for _, j := range all {
		if j.State != queue.Done || j.Folder == "" {
			return fmt.Errorf("job %s is %s: %s", j.UUID, j.State, j.Reason)
		}
	}
	if len(all) != jobs {
		return fmt.Errorf("the record has %d jobs, not %d", len(all), jobs)
	}
	return nil
}

// cpuTime is the CPU time of this process, without that of the programs it started.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
