package driver

import "sync"

// Memo is what drivers remember of one host from one creation to the next, as
// long as one controller works there: what does not change with an environment
// is asked once, so that it is no part of what creating one costs. It is safe
// for concurrent use. The zero value remembers nothing yet.
type Memo struct {
	mu    sync.Mutex
	known map[string]any
}

// Remember returns what ask returned for this key at first. An error is not
// remembered. On a nil Memo it always asks.
func Remember[T any](m *Memo, key string, ask func() (T, error)) (T, error) {
	if m == nil {
		return ask()
	}
	m.mu.Lock()
	v, ok := m.known[key].(T)
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := ask()
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.known == nil {
			m.known = map[string]any{}
		}
		m.known[key] = v
	}
	return v, err
}
