package jailtest

import (
	"fmt"
	"io"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/provision/driver/fake"
)

// pfctl is pfctl(8): what is enabled, the main ruleset, and anchors.
func pfctl(c *fake.Call, m *State) int {
	flags, rest, err := fake.Options(c.Argv[1:], "qa:f:F:s:")
	if err != nil || len(rest) > 0 {
		return c.Failf("usage: %v %v", err, rest)
	}
	name := fake.Last(flags['a'])
	switch {
	case slices.Contains(m.Main, "off") && fake.Last(flags['s']) != "info":
		return c.Failf("/dev/pf: No such file or directory")
	case flags['f'] != nil:
		text, err := io.ReadAll(c.Stdin)
		if err != nil || fake.Last(flags['f']) != "-" || name == "" {
			return c.Failf("cannot load: %v", err)
		}
		if _, err := parseRules(string(text)); err != nil {
			return c.Failf("stdin: %v", err)
		}
		if m.Anchors[name] = string(text); len(text) == 0 {
			delete(m.Anchors, name)
		}
	case fake.Last(flags['F']) == "all" && name != "":
		delete(m.Anchors, name)
	case fake.Last(flags['s']) == "Anchors":
		for _, a := range slices.Sorted(maps.Keys(m.Anchors)) {
			if strings.HasPrefix(a, name+"/") {
				c.Printf("  %s\n", a)
			}
		}
	case fake.Last(flags['s']) == "info":
		c.Printf("Status: %s for 0 days 00:01:02           Debug: Urgent\n",
			map[bool]string{true: "Disabled", false: "Enabled"}[slices.Contains(m.Main, "off")])
	case fake.Last(flags['s']) == "nat" || fake.Last(flags['s']) == "rules":
		for _, line := range m.Main {
			if strings.HasPrefix(line, "nat") == (fake.Last(flags['s']) == "nat") {
				c.Printf("%s\n", line)
			}
		}
	default:
		return c.Failf("usage")
	}
	return 0
}

// rule is a line of pf.conf(5), as far as this fake knows it.
type rule struct {
	nat, block, out, not, all bool
	on, family, from, to      string
	protocols                 []string
	ports                     []int
	table                     string // that is defined
	addresses                 []string
}

const (
	host1 = `(?:<[a-z]{1,31}>|\([a-z0-9]+\)|\{ [^{}]+ \}|[0-9a-f:./]+|any)`
	words = `[a-z0-9.]+`
)

var (
	tableForm = regexp.MustCompile(`^table <([a-z]{1,31})> \{ ([^{}]+) \}$`)
	natForm   = regexp.MustCompile(`^nat on (` + words + `) inet from (` + host1 + `) to any -> \((` + words + `)\)$`)
	passForm  = regexp.MustCompile(`^(block drop|pass) (in|out) quick on (` + words + `)(?: (inet6?))?` +
		`(?: proto (` + words + `|\{ [a-z, ]+ \}))?(?:( all)| from (! )?(` + host1 + `) to (` + host1 +
		`)(?: port \{ ([0-9, ]+) \})?)( no state| keep state)?$`)
)

// items are those of a list in braces, or the one that stands without them.
func items(text string) []string {
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "{ "), " }"), ", ")
}

// parseRules reads rules: tables, then translations, then filters.
func parseRules(text string) (out []rule, err error) {
	tables, filters := map[string]bool{}, false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		var r rule
		if f := tableForm.FindStringSubmatch(line); f != nil {
			r.table, r.addresses = f[1], items(f[2])
			for _, a := range r.addresses {
				_, perr := netip.ParsePrefix(a)
				if _, aerr := netip.ParseAddr(a); perr != nil && aerr != nil {
					return nil, fmt.Errorf("table <%s>: cannot parse %q", r.table, a)
				}
			}
			tables[r.table] = true
		} else if f := natForm.FindStringSubmatch(line); f != nil && !filters {
			r = rule{nat: true, on: f[1], from: f[2], to: f[3]}
		} else if f := passForm.FindStringSubmatch(line); f != nil {
			filters = true
			r = rule{block: f[1] == "block drop", out: f[2] == "out", on: f[3], family: f[4], all: f[6] != "", not: f[7] != "",
				from: f[8], to: f[9]}
			if f[5] != "" {
				r.protocols = items(f[5])
			}
			for _, text := range items(f[10]) {
				if n, err := strconv.Atoi(text); err == nil {
					r.ports = append(r.ports, n)
				}
			}
			if name := strings.Trim(r.from, "<>"); name != r.from && !tables[name] {
				return nil, fmt.Errorf("table <%s> is not defined", name)
			}
			if len(r.ports) > 0 && !slices.Contains(r.protocols, "udp") && !slices.Contains(r.protocols, "tcp") {
				return nil, fmt.Errorf("port only applies to tcp/udp: %s", line)
			}
			if r.block && f[11] != "" {
				return nil, fmt.Errorf("keep state on block rules doesn't make sense: %s", line)
			}
		} else {
			return nil, fmt.Errorf("syntax error: %s", line)
		}
		out = append(out, r)
	}
	return out, nil
}

// Packet is a packet at an interface, and begins a connection.
type Packet struct {
	Out      bool // of the host, to the interface
	On       string
	Protocol string // tcp, udp, icmp, icmp6
	From, To netip.Addr
	Port     int
}

// Passes tells what the anchors below bakeoff do to a packet: the first rule with quick decides.
func (m *State) Passes(p Packet) bool {
	for _, name := range slices.Sorted(maps.Keys(m.Anchors)) {
		rules, err := parseRules(m.Anchors[name])
		if err != nil {
			return false
		}
		tables := map[string][]string{}
		for _, r := range rules {
			if r.table != "" {
				tables[r.table] = r.addresses
			}
			if r.on != p.On || r.nat || r.out != p.Out || r.family == "inet" && !p.From.Is4() ||
				r.family == "inet6" && p.From.Is4() || r.protocols != nil && !slices.Contains(r.protocols, p.Protocol) ||
				r.ports != nil && !slices.Contains(r.ports, p.Port) {
				continue
			}
			if r.all || m.has(r.from, tables, p.From) != r.not && m.has(r.to, tables, p.To) {
				return !r.block
			}
		}
	}
	return true
}

// has tells whether a host of a rule is an address.
func (m *State) has(text string, tables map[string][]string, a netip.Addr) bool {
	list := items(text)
	if name := strings.Trim(text, "<>"); name != text {
		list = tables[name]
	}
	for _, x := range list {
		if p, err := netip.ParsePrefix(x); x == "any" || err == nil && p.Contains(a) || x == a.String() {
			return true
		}
		name := strings.Trim(x, "()")
		for key, l := range m.Links {
			if name == x || l.Jail != "" || name != "self" && name != key {
				continue
			}
			for _, own := range l.Addrs {
				if netip.MustParsePrefix(own).Addr() == a {
					return true
				}
			}
		}
	}
	return false
}
