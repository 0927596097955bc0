package network

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Obstacle is a chain of nft that drops forwarded packets, and has no rule for the network.
type Obstacle struct {
	Family, Table, Chain string
	// Fix are the commands that permit what the network forwards.
	Fix []string
}

// Obstacles are the chains of this machine that keep the guests of a network with NAT from
// others. A chain in another table can drop what the table of the network permits.
func (n *Network) Obstacles(ctx context.Context) ([]Obstacle, error) {
	if !n.NAT || n.store.freebsd() { // whose rules are not told apart by their tables
		return nil, nil
	}
	out, err := conn.Output(ctx, n.store.Host, "nft", "--json", "list", "ruleset")
	if err != nil {
		return nil, fault.Op("list the rules of nft", err)
	}
	return obstacles(out, n.hostLink())
}

// ruleset is the JSON of nft (libnftables-json(5)), as far as it is needed.
type ruleset struct {
	All []struct {
		Chain *struct{ Family, Table, Name, Hook, Policy string }
		Rule  *struct {
			Family, Table, Chain string
			Expr                 []json.RawMessage
		}
	} `json:"nftables"`
}

// obstacles finds the chains of forwarded packets that drop by policy or by a last rule without
// a condition, in tables that do not name the link.
func obstacles(listed []byte, link string) (out []Obstacle, err error) {
	var r ruleset
	if err := json.Unmarshal(listed, &r); err != nil {
		return nil, fault.Wrap(fault.Lab, "the output of nft", err)
	}
	type chain struct{ family, table, name string }
	names, drop := map[chain]bool{}, map[chain]bool{} // tables that name the link; chains that end with a drop
	quoted := []byte(`"` + link + `"`)
	for _, x := range r.All {
		if x.Rule == nil {
			continue
		}
		always := true
		for _, e := range x.Rule.Expr {
			if bytes.Contains(e, quoted) {
				names[chain{x.Rule.Family, x.Rule.Table, ""}] = true
			}
			always = always && is(e, "drop", "reject", "counter", "log")
		}
		n := len(x.Rule.Expr) // the rules of a chain are in their order
		drop[chain{x.Rule.Family, x.Rule.Table, x.Rule.Chain}] = always && n > 0 && is(x.Rule.Expr[n-1], "drop", "reject")
	}
	for _, x := range r.All {
		c := x.Chain
		if c == nil || c.Hook != "forward" || c.Family != "ip" && c.Family != "inet" ||
			names[chain{c.Family, c.Table, ""}] {
			continue
		}
		if c.Policy == "drop" || drop[chain{c.Family, c.Table, c.Name}] {
			o := Obstacle{Family: c.Family, Table: c.Table, Chain: c.Name}
			o.Fix = fixes(o, link)
			out = append(out, o)
		}
	}
	return out, nil
}

// is tells whether a part of a rule has one of these names.
func is(expr json.RawMessage, names ...string) bool {
	var parts map[string]json.RawMessage
	if json.Unmarshal(expr, &parts) != nil {
		return false
	}
	for name := range parts {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// fixes are the commands that permit what the network forwards.
func fixes(o Obstacle, link string) []string {
	if o.Table == "firewalld" {
		set := "--zone=trusted --add-interface=" + link
		return []string{"firewall-cmd " + set, "firewall-cmd --permanent " + set}
	}
	insert := strings.Join([]string{"nft insert rule", o.Family, o.Table, o.Chain}, " ")
	return []string{insert + " iifname " + link + " accept",
		insert + " oifname " + link + " ct state established,related accept"}
}
