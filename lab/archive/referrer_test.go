package archive

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"bakeoff/provision/image/registry"
	"bakeoff/provision/image/registry/registrytest"
)

// forge adds a result of another machine, which a store signs if it has a key.
func (s *Store) forge(t *testing.T, of string, like Replication, machine string) (digest string) {
	t.Helper()
	like.Machine = map[string]string{"machine": machine}
	before, _, err := s.referrers(replications, of)
	var text []byte
	if err == nil {
		text, err = json.Marshal(like)
	}
	layers := [][]byte{text}
	if err == nil && s.Config.Key != "" {
		var own []byte
		own, err = s.signature(t.Context(), replicationNamespace, text)
		layers = append(layers, own)
	}
	if err == nil {
		err = s.keepReferrer(replications, of, 1, layers...)
	}
	after, _, lerr := s.referrers(replications, of)
	if err != nil || lerr != nil {
		t.Fatal(err, lerr)
	}
	for _, d := range after {
		if !slices.Contains(before, d) {
			return d
		}
	}
	t.Fatal("nothing was added")
	return ""
}

// limit makes a store keep fewer results of a bundle.
func limit(t *testing.T, most int) {
	i := slices.IndexFunc(referrals, func(k referral) bool { return k.dir == replications.dir })
	before := replications.most
	set := func(n int) { replications.most, referrals[i].most = n, n }
	set(most)
	t.Cleanup(func() { set(before) })
}

// Strangers may add any number of results. They hide none that somebody trusted signed.
func TestStrangersHideNoSignedResult(t *testing.T) {
	server := registrytest.Start(t, false)
	at := server.Host + "/team/runs"
	client := &registry.Client{Arch: runtime.GOARCH}
	private, signers := MakeKey(t, "ann@example.org")
	from := testStore(t, Config{Registry: at, Signers: signers})
	of := from.addMade(t, original)
	like, err := from.judge(of, from.addMade(t, made{"20260102T000000Z-quick", 0.8, 1, "Linux 6.1", "machine 2"}))
	if err != nil {
		t.Fatal(err)
	}
	like.Run = "sha256:" + strings.Repeat("b", 64) // which no store has
	const most, strangers = 3, 11
	limit(t, most)
	var others []string
	for n := range strangers {
		others = append(others, from.forge(t, of, like, fmt.Sprint("stranger ", n)))
	}
	slices.Sort(others)
	from.Config.Key = private
	for n := 0; ; n++ { // by its digest it is not one of the first
		signed := from.forge(t, of, like, fmt.Sprint("signed ", n))
		if signed > others[most] {
			break
		}
		if err := os.Remove(filepath.Join(from.referrerFolder(replications, of), signed[7:])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := from.Push(t.Context(), client, of, ""); err != nil {
		t.Fatal(err)
	}
	to := testStore(t, Config{Signers: signers})
	for range 2 {
		if _, _, err := to.Pull(t.Context(), client, at+"@"+of); err != nil {
			t.Fatal(err)
		}
		all, err := to.Replications(t.Context(), of)
		if err != nil || all.Signed.Machines != 1 || all.Unsigned.Machines != most || all.Refused != 0 {
			t.Errorf("%+v, %v", all, err)
		}
	}
	if files, _, err := to.Leftovers(); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}

// A damaged result stops neither the push of the others nor anything else. prune removes it,
// and pull gets it again.
func TestADamagedReferrer(t *testing.T) {
	server := registrytest.Start(t, false)
	at := server.Host + "/team/runs"
	client := &registry.Client{Arch: runtime.GOARCH}
	s := testStore(t, Config{Registry: at})
	of := s.addMade(t, original)
	for _, m := range []made{{"20260102T000000Z-quick", 0.8, 1, "Linux 6.1", "machine 2"},
		{"20260103T000000Z-quick", 1.2, 1, "Linux 6.9", "machine 3"}} {
		if _, err := s.Replicate(t.Context(), of, s.addMade(t, m)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Push(t.Context(), client, of, ""); err != nil {
		t.Fatal(err)
	}
	list, _, err := s.referrers(replications, of)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	_, r, _, err := s.readReferrer(replications, list[0], of)
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range []string{list[0], r.Layers[0].Digest} {
		if err := os.WriteFile(s.blobs.Blob(hashOf(blob)), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		// The other one reaches a repository that has nothing.
		if _, err := s.Push(t.Context(), client, of, server.Host+"/"+blob[7:20]); err != nil {
			t.Error(err)
		}
		to := testStore(t, Config{})
		if _, _, err := to.Pull(t.Context(), client, server.Host+"/"+blob[7:20]+"@"+of); err != nil {
			t.Error(err)
		}
		if all, err := to.Replications(t.Context(), of); err != nil || all.Unsigned.Machines != 1 {
			t.Errorf("pushed %+v, %v", all, err)
		}
		f, err := s.Verify(t.Context(), of, nil)
		if err != nil || f.Problem != "" || !slices.ContainsFunc(f.Notes, func(n string) bool {
			return strings.HasPrefix(n, "replications: "+list[0][7:19]+" is damaged")
		}) {
			t.Errorf("%+v, %v", f, err)
		}
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Pull(t.Context(), client, at+"@"+of); err != nil {
			t.Fatal(err)
		}
		if all, err := s.Replications(t.Context(), of); err != nil || all.Unsigned.Machines != 2 || all.Refused > 0 {
			t.Errorf("pulled again: %+v, %v", all, err)
		}
	}
}

// A process that is killed while it removes a bundle leaves what prune finds.
func TestRemoveIsKilled(t *testing.T) {
	s := testStore(t, Config{})
	of := s.addMade(t, original)
	run := s.addMade(t, made{"20260102T000000Z-quick", 0.8, 1, "Linux 6.1", "machine 2"})
	if _, err := s.Replicate(t.Context(), of, run); err != nil {
		t.Fatal(err)
	}
	if err := s.Index.Remove(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.marker(of)); err != nil { // as forget does, up to here
		t.Fatal(err)
	}
	files, _, err := s.Leftovers()
	if err != nil || !slices.Contains(files, s.referrerFolder(replications, of)) {
		t.Errorf("%v, %v", files, err)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, k := range referrals {
		if left, err := filepath.Glob(filepath.Join(s.Dir, k.dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// The signature of a stranger does not replace that of the store.
func TestStrangersSignatureIsNotOurs(t *testing.T) {
	server := registrytest.Start(t, false)
	at := server.Host + "/team/runs"
	client := &registry.Client{Arch: runtime.GOARCH}
	private, signers := MakeKey(t, "ann@example.org")
	stranger, _ := MakeKey(t, "bob@example.org")
	first := testStore(t, Config{Registry: at, Key: stranger})
	of := first.addMade(t, original)
	if _, err := first.Push(t.Context(), client, of, ""); err != nil {
		t.Fatal(err)
	}
	s := testStore(t, Config{Registry: at, Key: private, Signers: signers})
	if _, _, err := s.Pull(t.Context(), client, at+"@"+of); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Push(t.Context(), client, of, ""); err != nil {
			t.Fatal(err)
		}
		all, ours, err := s.referrers(signatures, of)
		if err != nil || len(all) != 2 || ours != 1 {
			t.Errorf("%d signatures, %d of this store: %v", len(all), ours, err)
		}
		if who, err := s.SignedBy(t.Context(), of); err != nil || !slices.Equal(who, []string{"ann@example.org"}) {
			t.Errorf("signed by %v, %v", who, err)
		}
	}
}
