package queue

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"bakeoff/base/bounded"
	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/name"
	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
)

// Schema is the schema of the cluster file, which says how pools of lab files map to Slurm.
const Schema = "bakeoff/cluster/v1"

// DefaultFile is where the cluster file of a machine is.
const DefaultFile = "/etc/bakeoff/cluster.yaml"

// Cluster is the operator's file.
type Cluster struct {
	Schema string `yaml:"schema"`
	// Program starts bakeoff on a node: its path, or sudo with it.
	Program []string `yaml:"program"`
	// Reach executes a command on a node; {host} is its name. Empty: the nodes are this
	// machine.
	Reach []string `yaml:"reach"`
	// SSH is the address at which one node reaches another, for hosts of a pair.
	SSH string `yaml:"ssh"`
	// Limit is the time limit of a job.
	Limit period `yaml:"limit"`
	// Tries bounds how often a job may end without a result, for reasons that count.
	Tries int `yaml:"tries"`
	// Patience is how long a host may be silent before its jobs move.
	Patience period `yaml:"patience"`
	// Noise is the noise of a calibration from which bakeoff hosts drains a host; 0: never.
	Noise float64         `yaml:"noise"`
	Pools map[string]Pool `yaml:"pools"`

	root *yamltree.Node
}

// Pool is a set of equal hosts.
type Pool struct {
	Partition string `yaml:"partition"`
	// Feature selects nodes of the partition; "": all.
	Feature string `yaml:"feature"`
	// Licenses are needed by each job of the pool, as sbatch takes them: matlab:1.
	Licenses []string `yaml:"licenses"`
	Limit    period   `yaml:"limit"`
	// Hosts are machines that cannot run slurmd, by the name of the license that stands for
	// each. The job runs on a node of the partition and reaches the host over SSH.
	Hosts map[string]Token `yaml:"hosts"`
}

// Token is a host that cannot run slurmd.
type Token struct {
	SSH string `yaml:"ssh"`
	// Node is the node that the jobs of the host run on.
	Node string `yaml:"node"`
}

// period is a time like 4h.
type period time.Duration

// UnmarshalNode implements yamltree.Unmarshaler.
func (p *period) UnmarshalNode(n *yamltree.Node, r *yamltree.Reporter) {
	d, err := unit.ParseDuration(n.String())
	if err != nil || d <= 0 {
		r.Add(n.Position, "write a time like 30m or 4h", "%s is not a time", yamltree.Show(n.String()))
	}
	*p = period(d)
}

// Defaults of a cluster file.
const (
	defaultLimit    = 4 * time.Hour
	defaultPatience = 10 * time.Minute
	defaultTries    = 3
)

// Warning is how long before its time limit a job is asked to end.
const Warning = 120 * time.Second

// Load reads the cluster file at path.
func Load(path string) (*Cluster, error) {
	src, err := readFile(path, yamltree.MaxSource+1)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.WithFix(fault.New(fault.NotFound, "no cluster file %s", path),
			"write one (docs/guides/cluster.md), or name it in BAKEOFF_CLUSTER")
	}
	if err != nil {
		return nil, err
	}
	return Parse(path, src)
}

// readFile reads a file of at most most bytes.
func readFile(path string, most int64) ([]byte, error) {
	b, err := bounded.ReadFile(path, most)
	if os.IsNotExist(err) {
		return nil, fault.Wrap(fault.NotFound, "queue", err)
	}
	return b, fault.Op("queue", err)
}

// Parse reads a cluster file.
func Parse(path string, src []byte) (*Cluster, error) {
	r := &yamltree.Reporter{File: path}
	c := &Cluster{Tries: defaultTries, Limit: period(defaultLimit), Patience: period(defaultPatience),
		Program: []string{"bakeoff"}, SSH: "root@{host}",
		Reach: []string{"ssh", "-oBatchMode=yes", "-oConnectTimeout=10", "{host}"}}
	c.root = yamltree.Parse(src, yamltree.Format{Name: "cluster file", Schema: Schema}, r)
	if c.root != nil {
		yamltree.Decode(c.root, c, r)
		c.check(r)
	}
	return c, r.Err()
}

// Words of Slurm: names of nodes, partitions, features and licenses.
var word = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

var (
	license = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}(:[1-9][0-9]{0,5})?$`)
	address = lazy.Compile(`^([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_{][A-Za-z0-9._:{}-]*$`)
)

func (c *Cluster) check(r *yamltree.Reporter) {
	at := func(n *yamltree.Node, or *yamltree.Node) yamltree.Position { return cmp.Or(n, or).Position }
	root := c.root
	if c.Schema != Schema {
		r.Add(at(root.Get("schema"), root), "write schema: "+Schema, "the schema is %s", yamltree.Show(c.Schema))
	}
	if len(c.Program) == 0 || slices.Contains(c.Program, "") {
		r.Add(at(root.Get("program"), root), "write the path of bakeoff on the nodes", "program is empty")
	}
	if c.Tries < 1 || c.Tries > 100 {
		r.Add(at(root.Get("tries"), root), "write a number from 1 to 100", "tries is %d", c.Tries)
	}
	if c.Noise < 0 || c.Noise > 1 {
		r.Add(at(root.Get("noise"), root), "write a share like 0.05", "noise is %v", c.Noise)
	}
	if !address.MatchString(c.SSH) {
		r.Add(at(root.Get("ssh"), root), "write an address like root@{host}", "%s is not an address", yamltree.Show(c.SSH))
	}
	pools := root.Get("pools")
	if len(c.Pools) == 0 {
		r.Add(at(pools, root), "write pools: {NAME: {partition: PARTITION}}", "the file has no pool")
	}
	for _, key := range slices.Sorted(maps.Keys(c.Pools)) {
		c.checkPool(r, key, pools.Get(key), c.Pools[key])
	}
}

func (c *Cluster) checkPool(r *yamltree.Reporter, key string, n *yamltree.Node, p Pool) {
	bad := func(n *yamltree.Node, text, what string) {
		r.Add(n.Position, "use letters, digits, dots, - and _", "%s is not the name of a %s", yamltree.Show(text), what)
	}
	if !name.Valid(key, name.Max) {
		bad(n, key, "pool")
	}
	if !word.MatchString(p.Partition) {
		bad(cmp.Or(n.Get("partition"), n), p.Partition, "partition")
	}
	if p.Feature != "" && !word.MatchString(p.Feature) {
		bad(n.Get("feature"), p.Feature, "feature")
	}
	for _, l := range p.Licenses {
		if !license.MatchString(l) {
			bad(n.Get("licenses"), l, "license")
		}
	}
	for _, host := range slices.Sorted(maps.Keys(p.Hosts)) {
		h, at := p.Hosts[host], n.Get("hosts").Get(host)
		if !word.MatchString(host) {
			bad(at, host, "license")
		}
		if !address.MatchString(h.SSH) {
			r.Add(at.Position, "write ssh: root@HOST", "host %s has no address", yamltree.Show(host))
		}
		if !word.MatchString(h.Node) {
			r.Add(at.Position, "write node: NODE", "host %s names no node that its jobs run on", yamltree.Show(host))
		}
	}
}

// Pool returns a pool by its name; "" is the only one.
func (c *Cluster) Pool(key string) (Pool, string, error) {
	names := slices.Sorted(maps.Keys(c.Pools))
	if key == "" && len(names) == 1 {
		key = names[0]
	}
	if key == "" {
		return Pool{}, "", fault.WithFix(fault.New(fault.Invalid, "the lab file names no pool, and the cluster has %d pools",
			len(names)), "name one with --pool: "+strings.Join(names, ", "))
	}
	p, ok := c.Pools[key]
	if !ok {
		return Pool{}, "", fault.WithFix(fault.New(fault.NotFound, "the cluster file has no pool %q", key),
			yamltree.Meant(key, names))
	}
	return p, key, nil
}

// LimitOf is the time limit of jobs in pools.
func (c *Cluster) LimitOf(pools []string) time.Duration {
	out := time.Duration(c.Limit)
	for _, key := range pools {
		if p := c.Pools[key]; p.Limit > 0 {
			out = min(out, time.Duration(p.Limit))
		}
	}
	return out
}

// argv is a command on a host. host was checked.
func (c *Cluster) argv(host string, args ...string) ([]string, error) {
	if !word.MatchString(host) {
		return nil, fault.New(fault.Invalid, "%q is not the name of a node", host)
	}
	var out []string
	for _, a := range c.Reach {
		out = append(out, strings.ReplaceAll(a, "{host}", host))
	}
	return append(append(out, c.Program...), args...), nil
}

// node is the node that a host's jobs run on, and that keeps their results.
func (c *Cluster) node(host string) string {
	for _, p := range c.Pools {
		if t, ok := p.Hosts[host]; ok {
			return t.Node
		}
	}
	return host
}

// Address is the address at which the job reaches a host over SSH.
func (c *Cluster) Address(host string) string {
	for _, p := range c.Pools {
		if t, ok := p.Hosts[host]; ok {
			return t.SSH
		}
	}
	return strings.ReplaceAll(c.SSH, "{host}", host)
}

// String lists the pools.
func (c *Cluster) String() string {
	return fmt.Sprint(slices.Sorted(maps.Keys(c.Pools)))
}
