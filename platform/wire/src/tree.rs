//! Shapes of unicast trees.

use fabricast_groups::tree::{ShapeError, TreeShape};
use fabricast_proto::v1;

use crate::error::WireError;

/// Encodes a shape; `None` for the default, which programs know that know no other.
#[must_use]
pub fn encode_tree(shape: TreeShape) -> Option<v1::TreeShape> {
    let (family, width, block) = match shape {
        TreeShape::KAry { width } => (v1::TreeFamily::KAry, width, 0),
        TreeShape::KNomial { width } => (v1::TreeFamily::KNomial, width, 0),
        TreeShape::Hierarchical { width, block } => (v1::TreeFamily::Hierarchical, width, block),
    };
    (!shape.is_default()).then(|| v1::TreeShape { family: family.into(), width, block })
}

/// Decodes a shape.
///
/// # Errors
///
/// [`WireError::Tree`]: a kind that is not known here, or a size that no tree has.
pub fn decode_tree(wire: &v1::TreeShape) -> Result<TreeShape, WireError> {
    let v1::TreeShape { width, block, .. } = *wire;
    let shape = match v1::TreeFamily::try_from(wire.family) {
        Ok(v1::TreeFamily::KAry) => TreeShape::KAry { width },
        Ok(v1::TreeFamily::KNomial) => TreeShape::KNomial { width },
        Ok(v1::TreeFamily::Hierarchical) => TreeShape::Hierarchical { width, block },
        Ok(v1::TreeFamily::Unspecified) | Err(_) => {
            let problem = format!("no kind of tree has number {}", wire.family);
            return Err(WireError::Tree { field: "tree.family".to_owned(), problem });
        }
    };
    shape.checked().map_err(|error| {
        let field = match error {
            ShapeError::Width { .. } => "tree.width",
            ShapeError::Block { .. } => "tree.block",
        };
        WireError::Tree { field: field.to_owned(), problem: error.to_string() }
    })
}

/// Decodes the shape in a field of a message `outer`; left out, it is the default.
pub(crate) fn decode_optional_tree(
    outer: &str,
    wire: Option<&v1::TreeShape>,
) -> Result<TreeShape, WireError> {
    let shape = wire.map(decode_tree).transpose().map_err(|error| error.within(outer))?;
    Ok(shape.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_sent_and_read() {
        let shapes = [
            TreeShape::KAry { width: 7 },
            TreeShape::KNomial { width: 2 },
            TreeShape::Hierarchical { width: 3, block: 18 },
        ];
        for shape in shapes {
            assert_eq!(decode_tree(&encode_tree(shape).unwrap()), Ok(shape));
        }
        assert_eq!(encode_tree(TreeShape::default()), None);
    }

    #[test]
    fn shapes_that_no_tree_has_are_refused_by_field() {
        let good = encode_tree(TreeShape::Hierarchical { width: 3, block: 18 }).unwrap();
        let refused = |wire: v1::TreeShape| decode_tree(&wire).unwrap_err().to_string();
        assert_eq!(
            refused(v1::TreeShape { family: 9, ..good }),
            "tree.family: no kind of tree has number 9"
        );
        let wide = refused(v1::TreeShape { width: 65, ..good });
        assert_eq!(wide, "tree.width: a tree of width 65, which must be 2 to 64");
        let small = refused(v1::TreeShape { block: 0, ..good });
        assert_eq!(small, "tree.block: blocks of 0, which must be at least 2");
    }
}
