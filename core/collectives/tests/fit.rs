//! Parameters come back out of times that the model made, and doubtful measurements are refused.

use fabricast_collectives::{
    CostParameters, Fit, FitError, Measurement, Operation, Term, TreeKind, fit, fit_with_defaults,
};
use proptest::prelude::*;

const LINKS: f64 = 4.0;

/// Every operation, some sizes, widths and numbers of processes, on both kinds of trees.
fn designs() -> Vec<Measurement> {
    let mut designs = Vec::new();
    for operation in Operation::ALL {
        for bytes in [0, 8, 256, 2_048, 16_384] {
            for processes in [8, 64, 512] {
                for width in [4, 16, 64] {
                    for kind in [TreeKind::Adapter, TreeKind::Switch] {
                        let seconds = 0.0;
                        designs.push(Measurement {
                            operation,
                            bytes,
                            processes,
                            width,
                            kind,
                            seconds,
                        });
                    }
                }
            }
        }
    }
    designs
}

/// The designs as measured on a fabric, with noise of a standard deviation of `noise_us`.
fn measured(
    designs: &[Measurement],
    truth: &CostParameters,
    noise_us: f64,
    seed: u64,
) -> Vec<Measurement> {
    let mut state = seed;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f64::from(u32::try_from(state >> 32).expect("32 bits")) / f64::from(u32::MAX)
    };
    // Twelve uniform numbers less their mean are as good as normal.
    let mut normal = move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    designs
        .iter()
        .map(|design| {
            let shape = truth.complete(design.kind, design.processes, design.width);
            let exact = truth.total_us(&shape, design.operation, design.bytes);
            let seconds = (exact + noise_us * normal()).max(0.0) * 1e-6;
            Measurement { seconds, ..*design }
        })
        .collect()
}

fn truth() -> impl Strategy<Value = CostParameters> {
    (0.05..1.0_f64, 0.005..0.1_f64, 1e-4..2e-3_f64, 1e-4..2e-3_f64, 0.2..3.0_f64).prop_map(
        |(link_us, matching_us, store_us_per_byte, reduce_us_per_byte, software_us)| {
            CostParameters {
                path_links: LINKS,
                link_us,
                matching_us,
                store_us_per_byte,
                reduce_us_per_byte,
                software_us,
            }
        },
    )
}

proptest! {
    #[test]
    fn times_without_noise_give_the_parameters_exactly(truth in truth()) {
        let Fit { parameters, r_squared, held_at_zero, .. } =
            fit(&measured(&designs(), &truth, 0.0, 1), LINKS, &[]).unwrap();
        for term in Term::ALL {
            let error = (parameters.get(term) - truth.get(term)).abs();
            prop_assert!(error <= 1e-6 * truth.get(term), "{term}: {error}");
        }
        prop_assert!(r_squared > 1.0 - 1e-9 && held_at_zero.is_empty());
    }

    #[test]
    fn noisy_times_give_the_parameters_within_their_errors(truth in truth(), seed in any::<u64>()) {
        let found = fit(&measured(&designs(), &truth, 0.05, seed), LINKS, &[]).unwrap();
        for (term, error) in Term::ALL.into_iter().zip(found.standard_errors) {
            let off = (found.parameters.get(term) - truth.get(term)).abs();
            prop_assert!(error > 0.0 && off <= 6.0 * error, "{term}: off by {off}, error {error}");
        }
        prop_assert!(found.r_squared > 0.99, "{}", found.r_squared);
        // 360 draws of a normal variable: five deviations are about as far as they go.
        prop_assert!(found.worst_us() < 6.0 * 0.05, "{}", found.worst_us());
        let sum: f64 = found.residuals_us.iter().sum();
        prop_assert!(sum.abs() < 1e-6, "a constant is fitted, so residuals cancel: {sum}");
    }

    #[test]
    fn no_fit_is_better_than_the_one_found(truth in truth(), seed in any::<u64>(), by in -0.2..0.2_f64) {
        let times = measured(&designs(), &truth, 0.5, seed);
        let found = fit(&times, LINKS, &[]).unwrap();
        let error = |parameters: &CostParameters| -> f64 {
            let off = |one: &Measurement| {
                let shape = parameters.complete(one.kind, one.processes, one.width);
                one.seconds * 1e6 - parameters.total_us(&shape, one.operation, one.bytes)
            };
            times.iter().map(|one| off(one).powi(2)).sum()
        };
        for term in Term::ALL {
            let mut other = found.parameters;
            other.set(term, (other.get(term) + by * truth.get(term)).max(0.0));
            prop_assert!(error(&other) >= error(&found.parameters) - 1e-9, "{term}");
        }
    }
}

const TRUTH: CostParameters = CostParameters {
    store_us_per_byte: 0.0004,
    reduce_us_per_byte: 0.0006,
    software_us: 0.7,
    ..CostParameters::PAPER
};

/// Returns the refusal of a fit of those designs that pass a test.
fn undetermined(keep: impl Fn(&Measurement) -> bool) -> Vec<Term> {
    let designs: Vec<_> = designs().into_iter().filter(keep).collect();
    match fit(&measured(&designs, &TRUTH, 0.01, 3), LINKS, &[]) {
        Err(FitError::Undetermined { terms }) => terms,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_messages_of_some_size_the_terms_per_byte_are_not_determined() {
    assert_eq!(undetermined(|one| one.bytes == 0), [Term::Store, Term::Reduce]);
    let barriers = undetermined(|one| one.operation == Operation::Barrier);
    assert_eq!(barriers, [Term::Store, Term::Reduce]);
    let broadcasts = undetermined(|one| one.operation == Operation::Broadcast);
    assert_eq!(broadcasts, [Term::Reduce]);
}

#[test]
fn reductions_on_adapter_trees_alone_cannot_tell_storing_from_reducing() {
    let terms =
        undetermined(|one| one.operation == Operation::Reduce && one.kind == TreeKind::Adapter);
    assert_eq!(terms, [Term::Store, Term::Reduce]);
}

#[test]
fn one_width_and_number_of_processes_leave_the_rest_open() {
    let terms = undetermined(|one| {
        (one.processes, one.width, one.kind) == (64, 16, TreeKind::Adapter)
            && one.operation != Operation::Reduce
    });
    assert_eq!(terms, [Term::Link, Term::Matching, Term::Software]);
}

#[test]
fn a_given_term_makes_up_for_missing_measurements() {
    let keep = |one: &Measurement| one.operation == Operation::Broadcast;
    let designs: Vec<_> = designs().into_iter().filter(keep).collect();
    let times = measured(&designs, &TRUTH, 0.0, 1);
    let found = fit(&times, LINKS, &[(Term::Reduce, 0.5)]).unwrap();
    assert!((found.parameters.reduce_us_per_byte - 0.5).abs() < 1e-12);
    assert!((found.parameters.store_us_per_byte - 0.0004).abs() < 1e-9);
    assert!(found.standard_errors[3].abs() < 1e-12);
}

#[test]
fn a_term_that_would_be_negative_is_held_at_zero() {
    // Every time is shorter than the model's least: as if the software took negative time.
    let truth = CostParameters { software_us: 0.0, ..TRUTH };
    let mut times = measured(&designs(), &truth, 0.0, 1);
    times.iter_mut().for_each(|one| one.seconds = (one.seconds - 0.1e-6).max(0.0));
    let found = fit(&times, LINKS, &[]).unwrap();
    assert_eq!(found.held_at_zero, [Term::Software]);
    assert!(found.parameters.software_us.abs() < 1e-12 && found.r_squared < 1.0);
}

#[test]
fn too_few_measurements_and_bad_numbers_are_refused() {
    let times = measured(&designs(), &TRUTH, 0.0, 1);
    let few = fit(&times[..5], LINKS, &[]).unwrap_err();
    assert_eq!(few, FitError::TooFew { have: 5, terms: 5 });
    assert_eq!(few.to_string(), "5 measurements are too few to find 5 parameters, take 6 or more");
    let mut bad = times;
    bad[7].seconds = f64::NAN;
    assert_eq!(
        fit(&bad, LINKS, &[]).unwrap_err().to_string(),
        "measurement 7: seconds is NaN, which must be a number of at least 0"
    );
    assert!(
        fit(&[], LINKS, &[(Term::Link, -1.0)]).unwrap_err().to_string().contains("link_us is -1")
    );
}

#[test]
fn bytes_that_cost_nothing_get_a_stated_default() {
    let free = CostParameters {
        path_links: LINKS,
        link_us: 0.3,
        matching_us: 0.02,
        store_us_per_byte: 0.0,
        reduce_us_per_byte: 0.0,
        software_us: 0.0,
    };
    let (found, defaults) = fit_with_defaults(&measured(&designs(), &free, 0.0, 1), LINKS).unwrap();
    assert!(found.parameters.store_us_per_byte > 0.0 && found.parameters.reduce_us_per_byte > 0.0);
    assert_eq!(defaults, [Term::Store, Term::Reduce]);
    let paid = CostParameters { store_us_per_byte: 0.001, reduce_us_per_byte: 0.002, ..free };
    let (_, defaults) = fit_with_defaults(&measured(&designs(), &paid, 0.0, 1), LINKS).unwrap();
    assert_eq!(defaults, []);
}

/// Times of long operations are off by more than short ones take altogether.
#[test]
fn errors_in_proportion_to_the_time_leave_the_terms_of_short_operations() {
    let truth = CostParameters {
        path_links: LINKS,
        link_us: 15.0,
        matching_us: 10.0,
        store_us_per_byte: 0.01,
        reduce_us_per_byte: 0.02,
        software_us: 40.0,
    };
    let exact = measured(&designs(), &truth, 0.0, 1);
    let drawn =
        measured(&vec![Measurement { seconds: 0.0, ..exact[0] }; exact.len()], &truth, 1.0, 3);
    let base = drawn.iter().map(|one| one.seconds).sum::<f64>() / 360.0;
    let noisy = exact.iter().zip(&drawn);
    let noisy = noisy.map(|(one, draw)| {
        let off = (draw.seconds - base) * 1e6;
        Measurement { seconds: one.seconds * (1.0 + 0.05 * off), ..*one }
    });
    let (found, defaults) = fit_with_defaults(&noisy.collect::<Vec<_>>(), LINKS).unwrap();
    let near = |value: f64, wanted: f64| (value - wanted).abs() < 0.1 * wanted;
    let CostParameters { link_us, matching_us, .. } = found.parameters;
    assert!(near(link_us, 15.0) && near(matching_us, 10.0), "{:?}", found.parameters);
    assert_eq!(defaults, []);
}
