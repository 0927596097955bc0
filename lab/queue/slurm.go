package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Slurm is the commands of Slurm, which find its controller by SLURM_CONF or slurm.conf.
// Their output for eyes has had the same columns since Slurm 20; their JSON has not.
type Slurm struct{}

// slurmTime bounds a command. A controller that does not answer makes it wait.
const slurmTime = 60 * time.Second

// maxOutput bounds what a command may print, in bytes.
const maxOutput = 64 << 20

// headKept keeps the first bytes of what is written to it.
type headKept struct {
	bytes.Buffer
	cut bool
}

func (b *headKept) Write(p []byte) (int, error) {
	if room := maxOutput - b.Len(); len(p) > room {
		b.cut = true
		b.Buffer.Write(p[:room])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// run executes a command. Its error has the last line that the command printed.
func (Slurm) run(ctx context.Context, stdin []byte, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, slurmTime)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.WaitDelay = 5 * time.Second
	dieWithParent(c)
	var out, errs headKept
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(stdin), &out, &errs
	err := c.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fault.WithFix(fault.New(fault.Unsupported, "%s is not installed", argv[0]),
			"apt-get install slurm-client")
	case ctx.Err() != nil:
		return "", fault.New(fault.Lab, "%s did not answer within %v", argv[0], slurmTime)
	case err != nil:
		why := strings.TrimSpace(safetext.LastLines(errs.String(), 1))
		if why == "" {
			why = err.Error()
		}
		return "", fault.New(fault.Lab, "%s", safetext.Line(strings.TrimPrefix(why, argv[0]+": error: ")))
	case out.cut:
		return "", fault.New(fault.Lab, "%s printed more than %d bytes", argv[0], maxOutput)
	}
	return out.String(), nil
}

// submission is what sbatch gets.
type submission struct {
	uuid, name, partition string
	nodes                 []string
	licenses              []string
	limit                 time.Duration
	nice                  int
	held                  bool
	script                []byte
}

// submit gives a job to Slurm, and returns its number there.
func (s Slurm) submit(ctx context.Context, b submission) (string, error) {
	argv := []string{"sbatch", "--parsable", "--export=NIL", "--comment=" + b.uuid, "--job-name=" + b.name,
		"--partition=" + b.partition, "--nodelist=" + strings.Join(b.nodes, ","), fmt.Sprint("--nodes=", len(b.nodes)),
		fmt.Sprint("--time=", max(1, int((b.limit+time.Minute-1)/time.Minute))), "--signal=B:TERM@" +
			strconv.Itoa(int(Warning/time.Second)), "--output=/dev/null", "--chdir=/", "--requeue",
		"--nice=" + strconv.Itoa(b.nice)}
	if len(b.licenses) > 0 {
		argv = append(argv, "--licenses="+strings.Join(b.licenses, ","))
	}
	if b.held {
		argv = append(argv, "--hold")
	}
	out, err := s.run(ctx, b.script, argv...)
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // a federation adds its cluster
	if _, err := strconv.ParseUint(id, 10, 32); err != nil {
		return "", fault.New(fault.Lab, "sbatch printed %q instead of the number of a job", safetext.Line(out))
	}
	return id, nil
}

// answers reports whether the controller answers.
func (s Slurm) answers(ctx context.Context) bool {
	out, err := s.run(ctx, nil, "scontrol", "ping")
	return err == nil && strings.Contains(out, " is UP")
}

// Entry is a job as Slurm knows it.
type Entry struct {
	ID    string `json:"id"`
	State string `json:"state"` // as squeue names it: RUNNING
	// Nodes are those that it runs on, or waits for: a list of Slurm's, bk[1-3].
	Nodes string `json:"nodes"`
	User  string `json:"user"`
	Since string `json:"since"` // its start, or ""
	// Reason is why it waits.
	Reason string `json:"reason"`
	// UUID is the comment: that of a job of bakeoff.
	UUID string `json:"uuid,omitempty"`
	Name string `json:"name"`

	licenses []string
}

const entryFormat = "%i|%T|%N|%n|%u|%S|%r|%W|%j|%k"

// entries lists jobs: those of this user, or of all.
func (s Slurm) entries(ctx context.Context, mine bool) ([]Entry, error) {
	argv := []string{"squeue", "--noheader", "--states=all", "--format=" + entryFormat}
	if mine {
		argv = append(argv, "--me")
	}
	out, err := s.run(ctx, nil, argv...)
	if err != nil {
		return nil, fault.Op("squeue", err)
	}
	return parseEntries(out)
}

// parseEntries reads the output of squeue. Text of strangers stands in its last columns; a
// name with a separator makes a comment that is not a UUID.
func parseEntries(out string) ([]Entry, error) {
	var all []Entry
	for l := range strings.Lines(out) {
		if strings.TrimSpace(l) == "" {
			continue
		}
		f := strings.SplitN(strings.TrimRight(l, "\n"), "|", 10)
		if len(f) != 10 {
			return nil, fault.New(fault.Lab, "squeue printed %q instead of ten columns", safetext.Line(l))
		}
		e := Entry{ID: f[0], State: f[1], Nodes: f[2], User: safetext.Line(f[4]), Since: f[5], Reason: safetext.Line(f[6]),
			Name: safetext.Line(f[8])}
		if e.Nodes == "" {
			e.Nodes = f[3]
		}
		if !strings.HasPrefix(e.Since, "20") {
			e.Since = ""
		}
		if validUUID(f[9]) {
			e.UUID = f[9]
		}
		for text := range strings.SplitSeq(f[7], ",") {
			if name, _, _ := strings.Cut(text, ":"); name != "" && name != "(null)" {
				e.licenses = append(e.licenses, name)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// hasEnded reports whether Slurm has nothing more to do with the job.
func (e Entry) hasEnded() bool {
	switch e.State {
	case "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SIGNALING",
		"SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED", "RESIZING", "RESV_DEL_HOLD":
		return false
	}
	return true
}

// runs reports whether the job may have processes.
func (e Entry) runs() bool {
	return !e.hasEnded() && e.State != "PENDING" && !strings.HasPrefix(e.State, "REQUEUE")
}

// Node is a node as Slurm knows it.
type Node struct {
	Name      string   `json:"name"`
	State     string   `json:"state"` // idle, allocated, drained …
	CPUs      int      `json:"cpus"`
	MemoryMiB int      `json:"memory_mib"`
	Features  string   `json:"features,omitempty"`
	Partition []string `json:"partitions"`
	// Reason, At and By say why, when and by whom it was drained.
	Reason string `json:"reason,omitempty"`
	At     string `json:"reason_since,omitempty"`
	By     string `json:"reason_by,omitempty"`
}

// Up reports whether the node takes jobs.
func (n Node) Up() bool {
	state := strings.TrimRight(n.State, "*~#!%$@^-+")
	switch state {
	case "idle", "allocated", "mixed", "completing", "planned", "reserved":
		return !strings.Contains(n.State, "*") // a star: it does not answer
	}
	return false
}

const nodeFormat = "%N|%T|%c|%m|%f|%P|%H|%u|%E"

func (s Slurm) nodes(ctx context.Context) ([]Node, error) {
	out, err := s.run(ctx, nil, "sinfo", "--noheader", "--Node", "--format="+nodeFormat)
	if err != nil {
		return nil, fault.Op("sinfo", err)
	}
	return parseNodes(out)
}

// parseNodes reads the output of sinfo, which has a line for each partition of a node.
func parseNodes(out string) ([]Node, error) {
	var all []Node
	place := map[string]int{}
	for l := range strings.Lines(out) {
		if strings.TrimSpace(l) == "" {
			continue
		}
		f := strings.SplitN(strings.TrimRight(l, "\n"), "|", 9)
		if len(f) != 9 {
			return nil, fault.New(fault.Lab, "sinfo printed %q instead of nine columns", safetext.Line(l))
		}
		partition := strings.TrimSuffix(f[5], "*")
		if i, ok := place[f[0]]; ok {
			all[i].Partition = append(all[i].Partition, partition)
			continue
		}
		if !word.MatchString(f[0]) {
			continue // not a name that bakeoff can reach
		}
		known := func(s string) string {
			if s == "none" || s == "Unknown" || s == "(null)" || s == "N/A" {
				return ""
			}
			return safetext.Line(s)
		}
		n := Node{Name: f[0], State: f[1], Features: known(f[4]), Partition: []string{partition}, At: known(f[6]),
			By: known(f[7]), Reason: known(f[8])}
		n.CPUs, _ = strconv.Atoi(strings.TrimRight(f[2], "+"))
		n.MemoryMiB, _ = strconv.Atoi(strings.TrimRight(f[3], "+"))
		place[n.Name] = len(all)
		all = append(all, n)
	}
	return all, nil
}

// has reports whether the node is in a pool.
func (n Node) has(p Pool) bool {
	in := false
	for _, name := range n.Partition {
		in = in || name == p.Partition
	}
	if !in || p.Feature == "" {
		return in
	}
	for f := range strings.SplitSeq(n.Features, ",") {
		if f == p.Feature {
			return true
		}
	}
	return false
}

// maxExpanded bounds the nodes of a list.
const maxExpanded = 10_000

// expand writes out a list of Slurm's: bk[1-3,07],px1. Of what it does not understand it
// returns the text itself.
func expand(list string) (out []string) {
	for list != "" && len(out) < maxExpanded {
		part := list
		depth := 0
		for i, r := range list {
			if r == '[' {
				depth++
			} else if r == ']' {
				depth--
			} else if r == ',' && depth == 0 {
				part = list[:i]
				break
			}
		}
		list = strings.TrimPrefix(list[len(part):], ",")
		out = append(out, expandOne(part)...)
	}
	return out
}

func expandOne(part string) (out []string) {
	head, rest, ok := strings.Cut(part, "[")
	inner, tail, closed := strings.Cut(rest, "]")
	if !ok || !closed || strings.ContainsAny(tail, "[]") {
		if part == "" {
			return nil
		}
		return []string{part}
	}
	for item := range strings.SplitSeq(inner, ",") {
		from, to, _ := strings.Cut(item, "-")
		if to == "" {
			to = from
		}
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || lo < 0 || hi < lo || hi-lo > maxExpanded-len(out) || len(from) > 9 {
			return []string{part}
		}
		for n := lo; n <= hi; n++ {
			out = append(out, fmt.Sprintf("%s%0*d%s", head, len(from), n, tail))
		}
	}
	return out
}
