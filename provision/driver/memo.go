package driver

import "sync"

// Memo caches facts about a host that do not change with an environment, such
// as the version of a program, so that they do not add to the time of every
// creation. It is safe for concurrent use. The zero value is empty.
type Memo struct {
	mu    sync.Mutex
	known map[string]any
}

// Remember returns the cached value for key, or calls ask and caches its
// result. Errors are not cached. With a nil Memo it always calls ask.
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
