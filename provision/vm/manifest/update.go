package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
)

// keyOf names the property by which an update finds an item of a list.
var keyOf = map[string]string{"nics": "mac", "disks": "path", "filesystems": "target"}

// mappings are the properties that set_ and remove_ change.
var mappings = []string{"tags", "customer_metadata", "internal_metadata", "routes"}

// verbs are the beginnings of the names in an update.
var verbs = []string{"add_", "update_", "remove_", "set_"}

// fixed names what an update cannot change, atOnce what takes effect at once, and limits what does
// so in containers. The rest takes effect at the next start of the guest, except that of live.
var (
	fixed = []string{"uuid", "brand", "zonename", "zpool", "image_uuid", "image", "driver", "kernel", "kernel_args",
		"initrd", "command", "entrypoint", "environment", "user", "workdir", "tty"}
	atOnce = []string{"alias", "autoboot", "tags", "customer_metadata", "internal_metadata", "owner_uuid", "billing_id",
		"package_name", "package_version", "indestructible_zoneroot", "restart", "firewall_enabled", "quota"}
	limits = append([]string{"ram", "cpu_cap"}, ofRAM...)
)

// Update applies an update in SmartOS's form, JSON or YAML, to a guest: properties to set;
// set_ and remove_ for tags, metadata and routes; add_, update_ and remove_ for nics, disks
// and filesystems. It returns the new guest, and what changes; nothing if there is no change.
// All mistakes are reported at once, as Read does, and also those of the guest that the
// update would make.
func Update(old Guest, file string, src []byte) (Guest, []Change, error) {
	return update(old, file, src, false)
}

// AnyName is the image of a guest of UpdateAny, and the network of its NICs.
const AnyName = "any"

// UpdateAny is Update for a guest of which only the brand is known, as for vmadm: the update may change any
// NIC, disk or file system. It returns a guest that has them, with nic_tag AnyName where the update names none.
func UpdateAny(brand Brand, file string, src []byte) (Guest, error) {
	old := Guest{Brand: brand, Image: AnyName}
	Complete(&old)
	g, _, err := update(old, file, src, true)
	return g, err
}

// anyItem is an item of a list of a guest of a brand.
func anyItem(list string, brand Brand) map[string]any {
	switch {
	case list == "nics":
		return map[string]any{"nic_tag": AnyName, "ips": "dhcp"}
	case list == "disks":
		return map[string]any{"size": 1}
	case brand.Machine():
		return map[string]any{"source": "/" + AnyName, "type": Plan9}
	}
	return map[string]any{"source": "/" + AnyName, "type": "lofs"}
}

func update(old Guest, file string, src []byte, anyGuest bool) (Guest, []Change, error) {
	if json.Valid(src) {
		src = bytes.ReplaceAll(src, []byte("\t"), []byte(" "))
	}
	r := &yamltree.Reporter{File: file}
	root := yamltree.Parse(src, yamltree.Format{Name: "update"}, r)
	if err := r.Err(); err != nil {
		return old, nil, err
	}
	u := &updater{reader: reader{file: file, nodes: map[string]*yamltree.Node{"": root}}, doc: document(old),
		anyGuest: anyGuest}
	if root == nil || root.Kind != yamltree.Mapping {
		u.add("", "an update is a mapping", "write, for example, {alias: web}")
		return old, nil, fault.Wrap(fault.Invalid, "", u.problems)
	}
	// A key that set_ and remove_ name is set, wherever both stand in the file: as in vmadm.
	removes := func(e yamltree.Entry) bool { return strings.HasPrefix(e.Key.Text, "remove_") }
	for _, first := range []bool{true, false} {
		for _, e := range root.Entries {
			if keys := slices.Contains(mappings, strings.TrimPrefix(e.Key.Text, "remove_")); (removes(e) && keys) == first {
				u.nodes[e.Key.Text] = e.Value
				u.apply(e.Key.Text, e.Value)
			}
		}
	}
	if brand := u.doc["brand"]; u.nodes["brand"] != nil && brand != string(old.Brand) {
		// The user did not write what the other brand lacks.
		u.add("brand", "it is fixed when a guest is created", "create another guest")
		return old, nil, fault.Wrap(fault.Invalid, "", u.problems)
	}
	u.keepDifferences(old)
	text, err := json.Marshal(u.doc)
	if err != nil {
		return old, nil, err
	}
	all, err := ReadRecord(file, text, func(path string) bool {
		return anyGuest || slices.ContainsFunc(old.Disks, func(d Disk) bool { return d.Made() && d.Path == path })
	})
	for _, p := range ProblemsOf(err) {
		if u.nodes[p.Path] == nil && u.nodes["ram"] != nil && slices.Contains(ofRAM, p.Path) {
			continue // it has the value of ram
		}
		p.Line, p.Column = 0, 0 // of a document that nobody has written
		if n := u.nodes[p.Path]; n != nil {
			p.Line, p.Column = n.Line, n.Column
		}
		u.problems = append(u.problems, p)
	}
	if err != nil && len(u.problems) == 0 {
		return old, nil, err
	}
	var changes []Change
	if len(u.problems) == 0 {
		changes, err = Compare(old, all[0])
		u.problems = append(u.problems, ProblemsOf(err)...)
	}
	if len(u.problems) > 0 {
		return old, nil, fault.Wrap(fault.Invalid, "", u.problems)
	}
	return all[0], changes, nil
}

// ofRAM are the properties that an update of ram changes.
var ofRAM = []string{"max_physical_memory", "max_locked_memory", "max_swap", "tmpfs"}

type updater struct {
	reader
	doc      map[string]any
	anyGuest bool // it has each NIC, disk and file system
}

// document is a guest in JSON's form. Numbers whose absence would mean their default are
// always there.
func document(g Guest) map[string]any {
	out := map[string]any{}
	text, err := json.Marshal(g)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err = d.Decode(&out)
	}
	if err != nil {
		panic(err) // texts, numbers, truth values, lists and maps only
	}
	out["quota"] = g.Quota
	if !g.Brand.Machine() {
		out["tmpfs"] = g.TmpFS
	}
	if g.UUID == "" {
		delete(out, "uuid")
	}
	return out
}

// Text is a guest as Read reads it, in JSON.
func Text(g Guest) ([]byte, error) { return json.Marshal(document(g)) }

func (u *updater) apply(name string, n *yamltree.Node) {
	for _, verb := range verbs {
		list, ok := strings.CutPrefix(name, verb)
		switch {
		case !ok:
		case slices.Contains(mappings, list) && verb == "set_":
			u.setKeys(name, list, n)
			return
		case slices.Contains(mappings, list) && verb == "remove_":
			u.removeKeys(name, list, n)
			return
		case keyOf[list] != "" && verb != "set_":
			u.changeItems(name, list, verb, n)
			return
		}
	}
	switch {
	case keyOf[name] != "":
		u.add(name, "an update does not replace a list", "use add_"+name+", update_"+name+" or remove_"+name)
	case slices.Contains(mappings, name):
		u.add(name, "an update does not replace a mapping", "use set_"+name+" or remove_"+name)
	case !slices.Contains(PropertyNames(), name):
		u.add(name, "unknown property", meant(name, PropertyNames(), reflect.TypeFor[Guest]()))
	case n.Kind == yamltree.Null || n.Kind == yamltree.Scalar && n.Text == "":
		u.unset(name, n)
	default:
		u.doc[name] = plain(n)
	}
}

// unset gives an integer or a string its default. Others cannot be unset.
func (u *updater) unset(name string, n *yamltree.Node) {
	f, _ := fieldOf(name)
	if k := f.Type.Kind(); k != reflect.Int && k != reflect.String || strings.HasSuffix(name, "uuid") {
		u.doc[name] = plain(n) // the reader says what is wrong with it
		return
	}
	delete(u.doc, name)
}

// PropertyNames are the names of the properties of a guest.
func PropertyNames() []string {
	var out []string
	t := reflect.TypeFor[Guest]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

func fieldOf(name string) (reflect.StructField, bool) {
	i := slices.Index(PropertyNames(), name)
	if i < 0 {
		return reflect.StructField{}, false
	}
	return reflect.TypeFor[Guest]().Field(i), true
}

func (u *updater) setKeys(name, list string, n *yamltree.Node) {
	if n.Kind != yamltree.Mapping {
		u.add(name, "it is "+n.Kind.String(), "write "+yamltree.Mapping.String())
		return
	}
	have, _ := u.doc[list].(map[string]any)
	have = maps.Clone(have)
	if have == nil {
		have = map[string]any{}
	}
	for _, e := range n.Entries {
		have[e.Key.Text] = plain(e.Value)
	}
	u.doc[list] = have
}

func (u *updater) removeKeys(name, list string, n *yamltree.Node) {
	have, _ := u.doc[list].(map[string]any)
	for _, key := range u.texts(name, n, "names") {
		delete(have, key)
	}
}

// texts are the items of the property name, a list of texts, which may be written as one text. what
// says what the texts are.
func (u *updater) texts(name string, n *yamltree.Node, what string) (out []string) {
	switch n.Kind {
	case yamltree.Scalar:
		return strings.Split(n.Text, ",")
	case yamltree.Sequence:
	default:
		u.add(name, "it is not a list", "write a list of "+what)
	}
	for i, item := range n.Items {
		if item.Kind == yamltree.Scalar {
			out = append(out, item.Text)
			continue
		}
		path := name + "." + strconv.Itoa(i)
		u.nodes[path] = item
		u.add(path, "it is not a text", "write a list of "+what)
	}
	return out
}

func (u *updater) changeItems(name, list, verb string, n *yamltree.Node) {
	key := keyOf[list]
	have, _ := u.doc[list].([]any)
	find := func(text string) int {
		if key == "mac" && macForm.MatchString(text) {
			text = LongMAC(text)
		}
		return slices.IndexFunc(have, func(item any) bool { return item.(map[string]any)[key] == text })
	}
	if verb == "remove_" {
		for _, text := range u.texts(name, n, "values of "+key) {
			if i := find(text); i >= 0 {
				have = slices.Delete(have, i, i+1)
			}
		}
		if have != nil {
			u.doc[list] = have
		}
		if list == "nics" {
			choosePrimary(have)
		}
		return
	}
	if n.Kind != yamltree.Sequence {
		u.add(name, "it is "+n.Kind.String(), "write "+yamltree.Sequence.String())
		return
	}
	for i, item := range n.Items {
		path := name + "." + strconv.Itoa(i)
		u.nodes[path] = item
		patch, ok := plain(item).(map[string]any)
		if !ok {
			u.add(path, "it is "+item.Kind.String(), "write "+yamltree.Mapping.String())
			continue
		}
		if list == "nics" {
			u.movePrimary(path, patch, have)
		}
		if verb == "add_" {
			have = append(have, patch)
			continue
		}
		at := find(fmt.Sprint(patch[key]))
		if at < 0 && u.anyGuest && patch[key] != nil {
			item := anyItem(list, Brand(fmt.Sprint(u.doc["brand"])))
			item[key] = patch[key]
			have, at = append(have, item), len(have)
		}
		if at < 0 {
			u.add(path+"."+key, fmt.Sprintf("the guest has no item with this %s", key), "see `bakeoff vm get`")
			continue
		}
		merge(have[at].(map[string]any), patch)
	}
	u.doc[list] = have
}

// movePrimary lets a NIC that becomes primary be the only one.
func (u *updater) movePrimary(path string, patch map[string]any, nics []any) {
	switch fmt.Sprint(patch["primary"]) {
	case "true":
		for _, nic := range nics {
			delete(nic.(map[string]any), "primary")
		}
	case "false":
		u.nodes[path+".primary"] = u.nodes[path].Get("primary")
		u.add(path+".primary", "a NIC is primary until another one becomes primary", "set primary on the other NIC")
	}
}

// choosePrimary makes a NIC primary if none is, as vmadm does: the first one with a public address,
// or else the first one, which the reader chooses.
func choosePrimary(nics []any) {
	if slices.ContainsFunc(nics, func(nic any) bool { return nic.(map[string]any)["primary"] == true }) {
		return
	}
	for _, nic := range nics {
		item := nic.(map[string]any)
		words := strings.FieldsFunc(fmt.Sprint(item["ips"], " ", item["ip"]), func(r rune) bool {
			return strings.ContainsRune(" ,[]", r)
		})
		if slices.ContainsFunc(words, func(word string) bool {
			text, _, _ := strings.Cut(word, "/")
			a, err := netip.ParseAddr(text)
			return err == nil && !a.IsPrivate() && !a.IsLinkLocalUnicast()
		}) {
			item["primary"] = true
			return
		}
	}
}

// merge changes an item of a list. The old and the new form of an address replace each other.
func merge(item, patch map[string]any) {
	for key, others := range map[string][]string{"ips": {"ip", "netmask"}, "ip": {"ips"}, "netmask": {"ips"},
		"gateways": {"gateway"}, "gateway": {"gateways"}} {
		if _, ok := patch[key]; ok {
			for _, other := range others {
				delete(item, other)
			}
		}
	}
	for key, v := range patch {
		if v == nil || v == "" {
			delete(item, key)
		} else {
			item[key] = v
		}
	}
}

// keepDifferences keeps those between the limits of memory when one of them changes: the
// memory of a container is its limit, and locked memory and swap follow.
func (u *updater) keepDifferences(old Guest) {
	written := func(name string) bool { return u.nodes[name] != nil }
	number := func(name string) (int, bool) {
		n, err := strconv.Atoi(fmt.Sprint(u.doc[name]))
		return n, err == nil
	}
	if !old.Brand.Machine() && written("ram") && !written("max_physical_memory") {
		u.doc["max_physical_memory"] = u.doc["ram"]
	}
	if old.Brand.Machine() && written("ram") && !written("max_physical_memory") {
		if ram, ok := number("ram"); ok {
			u.doc["max_physical_memory"] = old.MaxPhysicalMemory + ram - old.RAM
		}
	}
	limit, ok := number("max_physical_memory")
	if !ok || limit == old.MaxPhysicalMemory {
		return
	}
	by := limit - old.MaxPhysicalMemory
	usual := Guest{Brand: old.Brand, RAM: old.RAM, MaxPhysicalMemory: old.MaxPhysicalMemory}
	Complete(&usual)
	for name, is := range map[string][2]int{"max_locked_memory": {old.MaxLockedMemory, usual.MaxLockedMemory},
		"max_swap": {old.MaxSwap, usual.MaxSwap}, "tmpfs": {old.TmpFS, usual.TmpFS}} {
		switch {
		case written(name):
		case is[0] == is[1]:
			delete(u.doc, name) // the default stays the default
		default:
			u.doc[name] = max(is[0]+by, map[string]int{"max_swap": 256}[name], 0)
		}
	}
}

// plain is a node as JSON has it.
func plain(n *yamltree.Node) any {
	switch n.Kind {
	case yamltree.Mapping:
		out := map[string]any{}
		for _, e := range n.Entries {
			out[e.Key.Text] = plain(e.Value)
		}
		return out
	case yamltree.Sequence:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = plain(item)
		}
		return out
	case yamltree.Null:
		return nil
	}
	switch {
	case n.Quoted:
	case n.Text == "true" || n.Text == "false":
		return n.Text == "true"
	case plainValue.MatchString(n.Text) && json.Valid([]byte(n.Text)):
		return json.Number(n.Text)
	}
	return n.Text
}

// Diff lists what differs between two guests, in the order of the paths.
func Diff(old, new Guest) []Change {
	old.Driver, new.Driver = DriverOf(old), DriverOf(new) // the records of earlier versions have none
	before, after := map[string]any{}, map[string]any{}
	flatten(document(old), "", before)
	flatten(document(new), "", after)
	paths := map[string]bool{}
	for p := range before {
		paths[p] = true
	}
	for p := range after {
		paths[p] = true
	}
	var out []Change
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if !reflect.DeepEqual(before[p], after[p]) && fmt.Sprint(before[p]) != fmt.Sprint(after[p]) {
			out = append(out, Change{Path: p, Old: before[p], New: after[p], When: new.whenOf(p)})
		}
	}
	for i, c := range out {
		var at int
		if _, err := fmt.Sscanf(c.Path, "disks.%d.size", &at); err == nil && DriverOf(new) == QEMU && at < len(old.Disks) &&
			at < len(new.Disks) && old.Disks[at].Path == new.Disks[at].Path && SeesSize(new.Disks[at].Model) {
			out[i].When = Live
		}
		if (c.Path == "vnc_port" || c.Path == "vnc_password") && ScreenLive(old, new) {
			out[i].When = Live
		}
	}
	if AddressesLive(old, new) {
		for i := range out {
			if addressOfNIC.MatchString(out[i].Path) {
				out[i].When = Live
			}
		}
	}
	if !new.InNamespaces() || slices.ContainsFunc(out, func(c Change) bool {
		return strings.HasPrefix(c.Path, "nics.") && c.When != Live
	}) {
		return out
	}
	for i := range out { // the NICs that they need are there
		if strings.HasPrefix(out[i].Path, "routes.") {
			out[i].When = Live
		}
	}
	return out
}

// flatten stores the values of a document by path. A list of values is one value.
func flatten(v any, path string, into map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			flatten(item, join(path, key), into)
		}
	case []any:
		if len(v) > 0 {
			if _, ok := v[0].(map[string]any); ok {
				for i, item := range v {
					flatten(item, join(path, strconv.Itoa(i)), into)
				}
				return
			}
		}
		into[path] = v
	default:
		into[path] = v
	}
}

// Values are the values of a guest at a path, such as nics.0.ip. An asterisk stands for every
// item of a list.
func (g Guest) Values(path string) (out []string) {
	all := map[string]any{}
	flatten(document(g), "", all)
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(path), `\*`, `[0-9]+`) + "$"
	re := regexp.MustCompile(pattern)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if re.MatchString(p) {
			out = append(out, strings.Trim(fmt.Sprint(all[p]), "[]"))
		}
	}
	return out
}

// filters are the properties of NICs that say what a guest may send.
var filters = regexp.MustCompile(`^nics\.[0-9]+\.(allow_.*|allowed_.*|dhcp_server|blocked_outgoing_ports)$`)

// addressOfNIC are the properties of NICs that say which addresses it has, and where it leads.
var addressOfNIC = regexp.MustCompile(`^nics\.[0-9]+\.(ips?|netmask|gateways?)$`)

// AddressesLive tells whether the NICs of a guest get other addresses or gateways while it runs. It is a
// container, whose NICs have fixed addresses and nothing else that a start would change.
func AddressesLive(old, new Guest) bool {
	changed := false
	return new.InNamespaces() && slices.EqualFunc(old.NICs, new.NICs, func(a, b NIC) bool {
		same := slices.Equal(a.IPs, b.IPs)
		changed = changed || !same || !slices.Equal(a.Gateways, b.Gateways)
		given := func(ip string) bool { return ip == "dhcp" || ip == "addrconf" }
		return a.MAC == b.MAC && a.NicTag == b.NicTag && a.VLAN == b.VLAN && a.MTU == b.MTU && a.Primary == b.Primary &&
			a.VRRPVRID == b.VRRPVRID && (same || len(a.IPs) > 0 && len(b.IPs) > 0 &&
			!slices.ContainsFunc(slices.Concat(a.IPs, b.IPs), given))
	}) && changed
}

// InNamespaces tells whether the guest is a container of Linux.
func (g Guest) InNamespaces() bool {
	return slices.Contains([]string{Crun, Runc, Nspawn, LXC}, DriverOf(g))
}

// live tells whether a property changes at once while the guest runs, because of its driver.
func (g Guest) live(name string) bool {
	switch {
	case g.InNamespaces():
		return slices.Contains(limits, name) || name == "cpu_shares" || name == "max_lwps" ||
			name == "maintain_resolvers" || name == "resolvers" && g.MaintainResolvers
	case DriverOf(g) == Jail:
		return slices.Contains(limits, name)
	case DriverOf(g) == QEMU:
		return name == "cpu_cap" || name == "cpu_shares"
	}
	return false
}

// ServesVNC tells whether VNC clients see the screen.
func (g Guest) ServesVNC() bool { return g.VNCPort > 0 || g.VNCPort == 0 && g.VNCPassword != "" }

// ScreenLive tells whether the port and the password of the screen change while the guest runs: QEMU
// neither adds nor removes a server, and does not change whether it asks for a password.
func ScreenLive(old, new Guest) bool {
	return DriverOf(new) == QEMU && old.ServesVNC() && new.ServesVNC() &&
		(old.VNCPassword == "") == (new.VNCPassword == "")
}

// SeesSize tells whether a guest sees at once that a disk has grown, by the model or the controller of QEMU.
func SeesSize(model string) bool {
	return model == "" || strings.HasPrefix(model, "virtio") || model == "scsi"
}

func (g Guest) whenOf(path string) When {
	name, _, _ := strings.Cut(path, ".")
	switch {
	case filters.MatchString(path), name == "disks" && strings.HasSuffix(path, ".compression"):
		return Live
	case slices.Contains(fixed, name):
		return Never
	case name == "disks" && DriverOf(g) != QEMU:
		return Stopped
	case slices.Contains(atOnce, name), g.live(name):
		return Live
	}
	return NextBoot
}
