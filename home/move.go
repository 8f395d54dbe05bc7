package home

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/store/sqlplane"
)

// Mover moves tenants between regions.
type Mover struct {
	// Regions are the databases of all regions, by the names of the regions. All databases of Regions must be migrated with [Migrations] and have the
	// same dialect.
	Regions map[string]sqlplane.Database

	// Rows moves the service's own rows of the tenant, and rows of outboxes and inboxes if the messages in
	// these rows must move too. Rows is called while no region executes operations of the tenant. If a move is
	// interrupted, Rows is called again, so Rows must be safe to repeat. Default: nil, no rows are moved.
	Rows func(context.Context, Handover) error

	// Publish updates the maps of all regions, by [Map.Pin]. Publish may be called again with the same pin.
	// Default: nil, nothing is called. In every case Move stores the new home in all databases that Move can
	// reach. A process whose map is outdated learns the new home when its region refuses an operation of the
	// tenant, or when the process forwards a request of the tenant. Until the process has learned the new home,
	// clients may get 503 or 421. After a 503 or 421 a client may send the same request again.
	Publish func(ctx context.Context, tenant string, p Pin) error
}

// Handover describes the move for which the function Mover.Rows is called.
type Handover struct {
	Tenant, From, To string

	// Epoch is the epoch of this run of the move, a number that is higher in each later run. In the database of the region To, a transaction that
	// moves rows should begin with
	//
	//	select 1 from once_home where tenant = 'TENANT' and epoch = EPOCH and not owned for update
	//
	// If the query returns no row, another run has taken over the move, and the transaction must be rolled back.
	Epoch int64
}

// Standing is the state of a tenant in the database of a region.
type Standing struct {
	Tenant string `json:"tenant"`
	Region string `json:"region"` // the region that the database belongs to
	Owned  bool   `json:"owned"`
	Epoch  int64  `json:"epoch"`
	Home   string `json:"home"`             // the home of the tenant, as far as this database knows; "" if a move to this region has begun and has not ended
	Moving string `json:"moving,omitempty"` // the region to which the tenant is being moved from this region; "" if the tenant is not being moved
}

// Show returns the state of a tenant in all databases. If tenant is "", Show returns the states of all tenants. If Show cannot read some databases,
// Show returns an error and also the states in the databases that it can read.
func (m Mover) Show(ctx context.Context, tenant string) (list []Standing, err error) {
	var errs []error
	for _, region := range slices.Sorted(maps.Keys(m.Regions)) {
		err := m.pool(region).query(ctx, "select h.tenant, h.owned, h.epoch, h.region, coalesce(m.target, '') from once_home h "+
			"left join once_home_move m on m.tenant = h.tenant where ? = '' or h.tenant = ? order by h.tenant", []any{tenant, tenant}, func(row sqlplane.Row) error {
			s := Standing{Region: region}
			err := row.Scan(&s.Tenant, &s.Owned, &s.Epoch, &s.Home, &s.Moving)
			list = append(list, s)
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("home: region %s: %w", region, err))
		}
	}
	slices.SortStableFunc(list, func(a, b Standing) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return list, errors.Join(errs...)
}

// Move moves a tenant to the region that the parameter to names. If Move is killed at any point or returns an
// error, the tenant belongs to one region or to no region. While no region owns the tenant, no operation of the
// tenant is executed, and callers receive an error after which they may try again. Call Move again with the
// same arguments to complete the move. For a new tenant, Move creates the tenant's first row. To give up a move
// that has failed before the old home refuses operations, call Move with the old home: all regions then learn
// that the old home is the home of the tenant.
//
// A move has several steps. The old home (the region that owned the tenant before) refuses new commits of the
// tenant, and Move waits for transactions that are committing. Then Move calls the function [Mover.Rows]. In one
// transaction in the new region, Move writes copies of the tenant's operations and of the times at which the
// tenant's sagas continue, and makes the new region the owner. Then Move deletes the copied rows in the old
// region, stores the new home in the other databases, and calls Publish.
func (m Mover) Move(ctx context.Context, tenant, to string) error {
	if err := m.check(tenant, to); err != nil {
		return err
	}
	list, failed := m.Show(ctx, tenant)
	from := slices.IndexFunc(list, func(s Standing) bool { return s.Owned })
	for i, s := range list {
		if from >= 0 && i != from && s.Moving != "" { // the target owns the tenant already, and only the end of that move is missing
			if err := m.end(ctx, s, list[from]); err != nil {
				return err
			}
		}
	}
	switch {
	case from >= 0:
	case failed != nil: // the region that has not answered may be the owner
		return failed
	case len(list) == 0: // a new tenant begins in the first region, so that concurrent calls insert the same row
		first := slices.Min(slices.Collect(maps.Keys(m.Regions)))
		err := m.pool(first).exec(ctx, 0, "insert into once_home (tenant, owned, epoch, region) values (?, true, 1, ?) KEEP(tenant)", tenant, first)
		if err != nil {
			return err
		}
		return m.Move(ctx, tenant, to)
	default: // no region owns the tenant: the last one that has given it away has its data
		for i, s := range list {
			if s.Moving != "" && (from < 0 || s.Epoch > list[from].Epoch) {
				from = i
			}
		}
	}
	switch {
	case from < 0:
		return fmt.Errorf("home: no region owns the tenant %s, and no region is moving it. Try: in the region that has the data of the tenant, change the row of the tenant in once_home by hand: set its column owned", tenant)
	case list[from].Moving == to:
	case list[from].Moving != "":
		return fmt.Errorf("home: the move of tenant %s to region %s has not ended. Try: once home move %s %s", tenant, list[from].Moving, tenant, list[from].Moving)
	case list[from].Region == to:
		epoch, err := m.lift(ctx, list[from], list)
		if err != nil {
			return err
		}
		return m.publish(ctx, tenant, Pin{to, epoch})
	}
	return m.run(ctx, list[from], to, highest(list)+1)
}

// check returns an error if the move is not possible.
func (m Mover) check(tenant, to string) error {
	switch {
	case m.Regions[to] == nil:
		return fmt.Errorf("home: this program has no database for the region %q. Try: one of %q", to, slices.Sorted(maps.Keys(m.Regions)))
	case TenantOf(url.PathEscape(tenant)) != tenant || tenant == "" || owner.Of(tenant+"/") != "" || len(tenant) > 255:
		return fmt.Errorf("home: %q cannot be the name of a tenant. Try: a name without blanks and slashes that the library does not reserve", tenant)
	}
	for _, db := range m.Regions {
		if d := db.Dialect(); d != m.Regions[to].Dialect() || owned[d] == "" {
			return errors.New("home: a tenant can move only between two PostgreSQL databases or between two SQLite databases")
		}
	}
	return nil
}

// highest returns the highest epoch in list.
func highest(list []Standing) (epoch int64) {
	for _, s := range list {
		epoch = max(epoch, s.Epoch)
	}
	return epoch
}

// run moves a tenant. Each run has its own epoch, which the target gets first. So the region that owns the tenant has the highest epoch, and the
// database refuses later writes of an earlier run.
func (m Mover) run(ctx context.Context, from Standing, to string, epoch int64) error {
	err := m.prepare(ctx, from.Tenant, to, epoch) // first, so that the tenant stays where it is if the target cannot be reached
	if err == nil && from.Moving == "" {
		err = m.mark(ctx, from, to)
	}
	from.Moving = to
	if err == nil {
		err = m.drain(ctx, from, epoch)
	}
	if err == nil && m.Rows != nil {
		err = m.Rows(ctx, Handover{from.Tenant, from.Region, to, epoch})
	}
	if err == nil {
		err = m.raise(ctx, from, epoch)
	}
	if err == nil {
		err = m.clean(ctx, from, epoch)
	}
	if err != nil {
		return err
	}
	return m.publish(ctx, from.Tenant, Pin{to, epoch})
}

// prepare gives the target the epoch of a run, and removes what an earlier move has left there. The target does not claim the tenant yet, because the
// move may fail: with this epoch, its claim would win over the owner's.
func (m Mover) prepare(ctx context.Context, tenant, to string, epoch int64) error {
	return m.within(ctx, to, func(t tx) error {
		err := t.exec(ctx, 1, "insert into once_home (tenant, owned, epoch, region) values (?, false, ?, '') UPSERT(tenant) epoch = NEW(epoch), region = NEW(region) "+
			"where not once_home.owned and once_home.epoch < NEW(epoch)", tenant, epoch)
		if err == nil {
			err = t.exec(ctx, 0, "delete from once_home_move where tenant = ?", tenant)
		}
		return err
	})
}

// mark begins a move. From now on the region refuses the tenant, although it still owns it.
func (m Mover) mark(ctx context.Context, from Standing, to string) error {
	return m.within(ctx, from.Region, func(t tx) error {
		if err := t.mustFind(ctx, "select 1 from once_home where tenant = ? and owned and epoch = ? FOR SHARE", from.Tenant, from.Epoch); err != nil {
			return err
		}
		return t.exec(ctx, 0, "insert into once_home_move (tenant, target) values (?, ?) KEEP(tenant)", from.Tenant, to)
	})
}

// drain ends the ownership of the region that a tenant leaves. It waits for the transactions of the tenant that are committing.
func (m Mover) drain(ctx context.Context, from Standing, epoch int64) error {
	return m.within(ctx, from.Region, func(t tx) error {
		if err := t.exec(ctx, 1, "update once_home_move set target = target where tenant = ? and target = ?", from.Tenant, from.Moving); err != nil {
			return err
		}
		return t.exec(ctx, 1, "update once_home set owned = false, region = ?, epoch = ? where tenant = ? and epoch < ?", from.Moving, epoch, from.Tenant, epoch)
	})
}

// raise makes the target the owner, in one transaction with the operations that it receives.
func (m Mover) raise(ctx context.Context, from Standing, epoch int64) error {
	moved, err := m.tables(ctx, from.Region)
	if err != nil {
		return err
	}
	return m.withinBoth(ctx, from.Region, from.Moving, func(source, t tx) error {
		if err := t.exec(ctx, 1, "update once_home set owned = true, region = ? where tenant = ? and epoch = ? and not owned", from.Moving, from.Tenant, epoch); err != nil {
			return err
		}
		// A standby refuses this write. It may lack the last records, which clean would then delete.
		if err := source.exec(ctx, 1, "update once_home_move set target = target where tenant = ? and target = ?", from.Tenant, from.Moving); err != nil {
			return err
		}
		return each(moved, func(of table) error {
			if err := of.remove(ctx, t, from.Tenant); err != nil { // rows from an earlier time in which the tenant lived in this region
				return err
			}
			return of.copy(ctx, source, t, from.Tenant)
		})
	})
}

// clean ends a move in the region that the tenant has left. It deletes the rows that the target has copied.
func (m Mover) clean(ctx context.Context, from Standing, epoch int64) error {
	moved, err := m.tables(ctx, from.Region)
	if err != nil {
		return err
	}
	return m.within(ctx, from.Region, func(t tx) error {
		err := t.exec(ctx, 1, "update once_home set owned = false where tenant = ? and epoch = ? and not owned", from.Tenant, epoch)
		if err == nil {
			err = each(moved, func(of table) error { return of.remove(ctx, t, from.Tenant) })
		}
		if err == nil {
			err = t.exec(ctx, 1, "delete from once_home_move where tenant = ?", from.Tenant)
		}
		return err
	})
}

// end ends a move that was killed after the target had become the owner. The target is asked once more: if it still has the same epoch, it was
// the owner when the other region was read.
func (m Mover) end(ctx context.Context, left, owner Standing) error {
	err := m.pool(owner.Region).mustFind(ctx, "select 1 from once_home where tenant = ? and owned and epoch = ?", owner.Tenant, owner.Epoch)
	if err != nil {
		return err
	}
	return m.clean(ctx, left, left.Epoch)
}

// lift raises the epoch of an owner above the epochs of the regions that do not name it, as after a move that has failed, and returns the epoch.
func (m Mover) lift(ctx context.Context, owner Standing, list []Standing) (int64, error) {
	if !slices.ContainsFunc(list, func(s Standing) bool { return s.Home != owner.Region && s.Epoch >= owner.Epoch }) {
		return owner.Epoch, nil
	}
	epoch := highest(list) + 1
	return epoch, m.pool(owner.Region).exec(ctx, 1, "update once_home set epoch = ?, region = ? where tenant = ? and owned and epoch = ?", epoch, owner.Region, owner.Tenant, owner.Epoch)
}

// publish makes the home of a tenant known. The database of each region gets it, so that a region without a row learns it too: the hash may have
// chosen that region.
func (m Mover) publish(ctx context.Context, tenant string, p Pin) error {
	for _, region := range slices.Sorted(maps.Keys(m.Regions)) {
		if region == p.Region { // it has the row, and on PostgreSQL the statement would lock this row
			continue
		}
		// A region that cannot be reached does not make a move fail that has ended.
		_ = m.pool(region).exec(ctx, 0, "insert into once_home (tenant, owned, epoch, region) values (?, false, ?, ?) UPSERT(tenant) epoch = NEW(epoch), region = NEW(region) "+
			"where not once_home.owned and once_home.epoch <= NEW(epoch)", tenant, p.Epoch, p.Region)
	}
	if m.Publish == nil {
		return nil
	}
	return m.Publish(ctx, tenant, p)
}
