package queue

import (
	"context"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
)

// HostState is a host of the pools, and who uses it.
type HostState struct {
	Name string `json:"name"`
	// On is the node that its jobs run on.
	On string `json:"node"`
	// Pools are the pools of the cluster file that the host is in.
	Pools []string `json:"pools"`
	Node
	// Users are the jobs that run on the host, of all users.
	Users []Entry `json:"jobs"`
	// Waiting counts the jobs that wait for the host.
	Waiting int `json:"waiting"`
}

// Hosts lists the hosts of all pools.
func (q *Queue) Hosts(ctx context.Context) ([]HostState, error) {
	nodes, err := q.Slurm.nodes(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := q.Slurm.entries(ctx, false)
	if err != nil {
		return nil, err
	}
	all := map[string]*HostState{}
	for _, key := range slices.Sorted(maps.Keys(q.Cluster.Pools)) {
		for _, name := range q.hosts(key, nodes) {
			h := all[name]
			if h == nil {
				h = &HostState{Name: name, On: q.Cluster.node(name), Node: Node{Name: q.Cluster.node(name), State: "unknown"},
					Users: []Entry{}}
				all[name] = h
			}
			h.Pools = append(h.Pools, key)
		}
	}
	for _, h := range all {
		if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == h.Node.Name }); i >= 0 {
			h.Node = nodes[i]
		}
		for _, e := range entries {
			switch {
			case e.hasEnded() || !slices.Contains(expand(e.Nodes), h.Node.Name):
			case e.runs():
				h.Users = append(h.Users, e)
			default:
				h.Waiting++
			}
		}
	}
	out := []HostState{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out, nil
}

// Enough refuses more hosts than pools have. If Slurm does not answer, that is not known.
func (q *Queue) Enough(ctx context.Context, pools []string, count int) error {
	nodes, err := q.Slurm.nodes(ctx)
	if err != nil {
		return nil // the jobs wait for Slurm
	}
	for _, key := range pools {
		n := len(q.hosts(key, nodes))
		if n == 0 && count > 0 {
			return fault.WithFix(fault.New(fault.Unsupported, "Slurm shows this user no host of the pool %s (%s)", key,
				where(q.Cluster.Pools[key])), "run sinfo: the partition may be for other groups, or the cluster file names "+
				"the wrong partition or feature")
		}
		if n < count {
			return fault.WithFix(fault.New(fault.Unsupported, "the pool %s has %d hosts, and the lab file asks for %d", key, n,
				count), "write a smaller count, or see bakeoff hosts list")
		}
	}
	return nil
}

// where says which nodes of Slurm are in a pool.
func where(p Pool) string {
	if p.Feature != "" {
		return "partition " + p.Partition + ", feature " + p.Feature
	}
	return "partition " + p.Partition
}

// nodeNamed returns the node of a host that runs slurmd.
func (q *Queue) nodeNamed(ctx context.Context, host string) (string, error) {
	hosts, err := q.Hosts(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(hosts, func(h HostState) bool { return h.Name == host })
	switch {
	case i < 0:
		return "", fault.WithFix(fault.New(fault.NotFound, "no pool contains the host %q", host), "see bakeoff hosts list")
	case hosts[i].Node.Name != host:
		return "", fault.WithFix(fault.New(fault.Unsupported, "Slurm cannot drain the host %s: for Slurm, this "+
			"host is a license that jobs on the node %s use, not a node", host, hosts[i].Node.Name), "set the "+
			"number of these licenses to 0 "+
			"in slurm.conf, or drain the node")
	}
	return host, nil
}

// Drain keeps new jobs from a host; a job that runs there ends. Slurm permits it to
// operators.
func (q *Queue) Drain(ctx context.Context, host, reason string) error {
	node, err := q.nodeNamed(ctx, host)
	if err != nil {
		return err
	}
	_, err = q.Slurm.run(ctx, nil, "scontrol", "update", "NodeName="+node, "State=DRAIN",
		"Reason="+strings.Map(func(r rune) rune {
			if r < ' ' || r == '|' {
				return ' '
			}
			return r
		}, reason))
	return fault.Op("host "+host, err)
}

// Resume gives jobs to a host again.
func (q *Queue) Resume(ctx context.Context, host string) error {
	node, err := q.nodeNamed(ctx, host)
	if err != nil {
		return err
	}
	_, err = q.Slurm.run(ctx, nil, "scontrol", "update", "NodeName="+node, "State=RESUME")
	return fault.Op("host "+host, err)
}

// Calibration returns what bakeoff calibrate --show --json prints on a host.
func (q *Queue) Calibration(ctx context.Context, host string) ([]byte, error) {
	argv, err := q.Cluster.argv(q.Cluster.node(host), "calibrate", "--show", "--json")
	if err != nil {
		return nil, err
	}
	out, err := q.Slurm.run(ctx, nil, argv...)
	return []byte(out), fault.Op("host "+host, err)
}
